//! What operators may do whose rules are in the master's file, and whose job is whose.

use saline_channel::MasterTrust;
use saline_config::MasterConfig;
use saline_data::Value;
use saline_messages::{
    Jid, KeyRequest, OperatorReply, OperatorRequest, PublishRequest, RequestId, Role,
    RunnerRequest, TokenName, TokenRequest, UploadId, UploadRequest,
};
use saline_targeting::Target;

use crate::support::runner::{call, end, value};
use crate::support::{Deployment, Peer, credentials};

/// Changes a configuration to what these options of a file say.
pub(crate) fn with_options(options: &str) -> impl FnOnce(&mut MasterConfig) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("master"), options).unwrap();
    let read = MasterConfig::load(folder.path(), &[]).unwrap().config;
    move |config| {
        config.auto_accept = true;
        config.operators = read.operators;
        config.audit_file = read.audit_file;
    }
}

pub(crate) async fn operator(deployment: &Deployment, name: &str) -> Peer {
    let own = credentials(Role::Operator, name);
    let folder = deployment.config.paths.pki_dir.join("operators");
    std::fs::write(folder.join(name), own.identity.public().to_pem()).unwrap();
    let trust = MasterTrust::Pinned(deployment.master_keys());
    Peer::come(deployment.network().await, own, &trust).await
}

pub(crate) async fn publish(peer: &Peer, target: &str, fun: &str) -> Result<Jid, String> {
    let request = OperatorRequest::Publish(PublishRequest::new(
        RequestId::random().unwrap(),
        Target::glob(target),
        fun,
        // No authority.
        "root",
    ));
    match peer.order(request).await {
        OperatorReply::Published(published) => Ok(published.jid.unwrap()),
        OperatorReply::NotAllowed(line) => Err(line),
        other => panic!("{other:?}"),
    }
}

async fn listed(peer: &Peer) -> Vec<Jid> {
    match value(peer, "jobs.list_jobs", &[]).await {
        Value::Map(jobs) => jobs
            .iter()
            .map(|(jid, _)| Jid::parse(jid).unwrap())
            .collect(),
        other => panic!("{other:?}"),
    }
}

/// Every request about one job.
fn about(jid: &Jid) -> [OperatorRequest; 3] {
    [
        OperatorRequest::JobReturns {
            jid: jid.clone(),
            after: 0,
        },
        OperatorRequest::JobStates {
            jid: jid.clone(),
            after: None,
        },
        OperatorRequest::Cancel { jid: jid.clone() },
    ]
}

fn is_refused(reply: &OperatorReply) -> bool {
    matches!(reply, OperatorReply::NotAllowed(_))
}

#[tokio::test]
async fn an_operator_that_gives_too_many_orders_waits() {
    let deployment = Deployment::start_with(with_options("operators:\n  '*': ['@all']\n")).await;
    let [many, one] = [
        operator(&deployment, "many").await,
        operator(&deployment, "one").await,
    ];
    let root = deployment.operator().await;
    let cancel = || OperatorRequest::Cancel {
        jid: Jid::parse("20261121091409931549").unwrap(),
    };
    let mut given = 0;
    while !matches!(many.order(cancel()).await, OperatorReply::Busy { .. }) {
        given += 1;
        // Within the budget they take 90 s.
        assert!(given < 2_000);
    }
    assert!(given >= 200, "{given}");
    for _ in 0..=given {
        assert_eq!(root.order(cancel()).await, OperatorReply::NoSuchJob);
    }
    assert_eq!(one.order(cancel()).await, OperatorReply::NoSuchJob);
}

#[tokio::test]
async fn an_operator_with_rules_sees_and_cancels_its_own_and_one_with_all_rights_everything() {
    let rules = "operators:\n  alice: [test.ping, '@jobs']\n  bob: ['web*': [test.ping], '@jobs']\n  chief: ['@all']\n";
    let deployment = Deployment::start_with(with_options(rules)).await;
    for id in ["web1", "db1"] {
        deployment.minion(id).await;
    }
    let alice = operator(&deployment, "alice").await;
    let bob = operator(&deployment, "bob").await;
    let chief = operator(&deployment, "chief").await;
    let carol = operator(&deployment, "carol").await;

    let of_alice = publish(&alice, "*", "test.ping").await.unwrap();
    let of_bob = publish(&bob, "web1", "test.ping").await.unwrap();
    let refused = publish(&bob, "*", "test.ping").await.unwrap_err();
    assert_eq!(
        refused,
        "operator bob may not run test.ping on db1: no rule of operators in the master's configuration allows it"
    );
    publish(&alice, "*", "cmd.run").await.unwrap_err();
    publish(&carol, "*", "test.ping").await.unwrap_err();

    assert_eq!(listed(&alice).await, std::slice::from_ref(&of_alice));
    assert_eq!(listed(&bob).await, std::slice::from_ref(&of_bob));
    assert_eq!(listed(&chief).await, [of_alice.clone(), of_bob.clone()]);
    for request in about(&of_bob) {
        assert!(
            is_refused(&alice.order(request.clone()).await),
            "{request:?}"
        );
        assert!(
            is_refused(&carol.order(request.clone()).await),
            "{request:?}"
        );
    }
    for request in about(&of_alice) {
        assert!(
            !is_refused(&alice.order(request.clone()).await),
            "{request:?}"
        );
        assert!(
            !is_refused(&chief.order(request.clone()).await),
            "{request:?}"
        );
    }
    let upload = UploadId::parse(&"0a".repeat(16)).unwrap();
    for request in [
        OperatorRequest::Upload(UploadRequest::Begin {
            upload,
            files: 1,
            bytes: 1,
        }),
        OperatorRequest::Keys(KeyRequest::List),
        OperatorRequest::RotateGroupKey,
        OperatorRequest::Tokens(TokenRequest::List),
        OperatorRequest::Tokens(TokenRequest::Revoke(TokenName([1; 4]))),
        OperatorRequest::Keys(KeyRequest::RotateIdentity),
        OperatorRequest::LastSeen(Vec::new()),
    ] {
        assert!(
            is_refused(&alice.order(request.clone()).await),
            "{request:?}"
        );
        assert!(
            !is_refused(&chief.order(request.clone()).await),
            "{request:?}"
        );
    }
    let all = OperatorRequest::MatchTarget {
        target: Target::glob("*"),
        include_unknown: false,
    };
    assert!(is_refused(&bob.order(all.clone()).await));
    assert!(!is_refused(&alice.order(all).await));
}

#[tokio::test]
async fn an_order_of_a_remote_operator_without_a_line_is_refused_and_leaves_nothing() {
    let deployment = Deployment::start_with(with_options("audit_file: /dev/full\n")).await;
    deployment.minion("web1").await;
    let alice = operator(&deployment, "alice").await;
    let root = deployment.operator().await;
    let refused = publish(&alice, "*", "test.ping").await.unwrap_err();
    assert!(
        refused.contains("the audit file cannot be written: /dev/full: No space left"),
        "{refused}"
    );
    assert_eq!(listed(&root).await, []);
    let of_root = publish(&root, "*", "test.ping").await.unwrap();
    assert_eq!(listed(&root).await, std::slice::from_ref(&of_root));
    let cancel = OperatorRequest::Cancel { jid: of_root };
    assert!(is_refused(&alice.order(cancel).await));
}

#[tokio::test]
async fn a_runner_about_jobs_tells_and_ends_what_the_same_operator_ordered() {
    let rules = "operators:\n  alice: [test.ping, '@jobs']\n  bob: [test.ping]\n";
    let deployment = Deployment::start_with(with_options(rules)).await;
    deployment.minion("web1").await;
    let alice = operator(&deployment, "alice").await;
    let bob = operator(&deployment, "bob").await;
    let root = deployment.operator().await;
    let of_alice = publish(&alice, "*", "test.ping").await.unwrap();
    let of_bob = publish(&bob, "*", "test.ping").await.unwrap();
    let names = |value: saline_data::Value| match value {
        saline_data::Value::Map(entries) => {
            let names = entries.into_iter().map(|(name, _)| name);
            names.collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let listed = |value| names(value) == [of_alice.to_string()];
    assert!(listed(value(&alice, "jobs.list_jobs", &[]).await));
    assert!(listed(value(&alice, "jobs.last_run", &[]).await));
    assert_eq!(names(value(&root, "jobs.list_jobs", &[]).await).len(), 2);
    for fun in [
        "jobs.list_job",
        "jobs.lookup_jid",
        "jobs.print_job",
        "jobs.exit_success",
        "jobs.cancel",
    ] {
        let (ended, _) = end(&alice, call(fun, &[of_bob.as_str()])).await;
        let error = ended.error.unwrap_or_default();
        assert!(error.contains("a job of bob"), "{fun}: {error}");
        let (ended, _) = end(&root, call(fun, &[of_bob.as_str()])).await;
        assert_eq!(ended.error, None, "{fun}");
    }
    let refused = OperatorRequest::Runner(RunnerRequest::Run(call("manage.up", &[])));
    assert!(is_refused(&alice.order(refused).await));
    // Its own jobs take no rule.
    let of_bob = [of_bob.to_string()];
    assert_eq!(names(value(&bob, "jobs.list_jobs", &[]).await), of_bob);
    let (ended, _) = end(&bob, call("jobs.cancel", &[of_alice.as_str()])).await;
    let error = ended.error.unwrap_or_default();
    assert!(error.contains("a job of alice"), "{error}");
    let refused = OperatorRequest::Runner(RunnerRequest::Run(call("manage.up", &[])));
    assert!(is_refused(&bob.order(refused).await));
}
