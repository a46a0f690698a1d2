//! Which orders a master refuses since none of their minions can know the function, by what minions reported in their sessions.

use std::collections::BTreeSet;

use saline_channel::MasterTrust;
use saline_config::MasterConfig;
use saline_messages::{
    FunctionsReport, MinionFunctions, MinionReply, MinionRequest, OperatorReply, OperatorRequest,
    PublishRequest, RefusedVerb, RequestId,
};
use saline_targeting::Target;

use crate::operator_rules::operator;
use crate::support::{Deployment, Peer};

/// How an order ended: published, or refused with this text.
async fn order(peer: &Peer, target: &str, fun: &str, ttl_ms: Option<u64>) -> Result<(), String> {
    publish(peer, request_for(target, fun, ttl_ms)).await
}

fn request_for(target: &str, fun: &str, ttl_ms: Option<u64>) -> PublishRequest {
    PublishRequest {
        ttl_ms,
        ..PublishRequest::new(
            RequestId::random().unwrap(),
            Target::glob(target),
            fun,
            "root",
        )
    }
}

async fn publish(peer: &Peer, request: PublishRequest) -> Result<(), String> {
    match peer.order(OperatorRequest::Publish(request)).await {
        OperatorReply::Published(_) => Ok(()),
        OperatorReply::Invalid(why) | OperatorReply::NotAllowed(why) => Err(why),
        other => panic!("{other:?}"),
    }
}

fn functions(names: &[&str]) -> MinionFunctions {
    let names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    MinionFunctions {
        built_in: names,
        ..MinionFunctions::default()
    }
}

fn request(functions: &MinionFunctions, is_whole: bool) -> MinionRequest {
    let bytes = functions.to_bytes();
    MinionRequest::Functions(FunctionsReport {
        digest: FunctionsReport::digest_of(&bytes),
        functions: is_whole.then_some(bytes),
    })
}

#[tokio::test]
async fn an_order_is_refused_only_when_every_minion_has_said_that_it_does_not_know_the_function() {
    let deployment = Deployment::start(true).await;
    let root = deployment.operator().await;
    let m1 = deployment.minion("m1").await;
    let m2 = deployment.minion("m2").await;
    let usual = functions(&["test.ping", "test.sleep"]);
    let pnig = || order(&root, "m*", "test.pnig", None);
    assert_eq!(pnig().await, Ok(()), "nothing is known of either");
    assert_eq!(m1.ask(request(&usual, false)).await, MinionReply::SendAll);
    assert_eq!(m1.ask(request(&usual, true)).await, MinionReply::Done);
    assert_eq!(pnig().await, Ok(()), "nothing is known of m2");
    assert_eq!(m2.ask(request(&usual, false)).await, MinionReply::Done);
    let near = "'test.pnig' is not available on any of the 2 minions: did you mean test.ping?";
    assert_eq!(pnig().await, Err(near.to_owned()));
    assert_eq!(order(&root, "m*", "test.ping", None).await, Ok(()));

    // A digest of other functions, which the master does not have yet.
    let grown = functions(&["test.ping", "test.pnig"]);
    assert_eq!(m2.ask(request(&grown, false)).await, MinionReply::SendAll);
    assert_eq!(pnig().await, Ok(()));
    assert_eq!(m2.ask(request(&grown, true)).await, MinionReply::Done);
    assert_eq!(pnig().await, Ok(()));
    assert_eq!(
        order(&root, "m1", "test.pnig", None).await,
        Err("'test.pnig' is not available on m1: did you mean test.ping?".to_owned())
    );
    let asked_all_the_same = PublishRequest {
        allow_unknown_functions: true,
        ..request_for("m1", "test.pnig", None)
    };
    assert_eq!(publish(&root, asked_all_the_same).await, Ok(()));
    let broken = MinionRequest::Functions(FunctionsReport {
        digest: [0; 32],
        functions: Some(vec![0xff; 9]),
    });
    let refused = MinionReply::Refused(RefusedVerb::Malformed);
    assert_eq!(m1.ask(broken).await, refused);
    assert_eq!(order(&root, "m1", "test.pnig", None).await, Ok(()));
}

#[tokio::test]
async fn a_report_ends_with_its_session_and_minions_that_are_away_may_know_anything() {
    let deployment = Deployment::start(true).await;
    let root = deployment.operator().await;
    let m1 = deployment.minion("m1").await;
    let m2 = deployment.minion("m2").await;
    for minion in [&m1, &m2] {
        minion.ask(request(&functions(&["test.ping"]), true)).await;
    }
    assert!(order(&root, "m*", "test.pnig", Some(60_000)).await.is_err());
    m2.ask(MinionRequest::Goodbye(None)).await;
    assert!(order(&root, "m*", "test.pnig", None).await.is_err());
    assert_eq!(order(&root, "m*", "test.pnig", Some(60_000)).await, Ok(()));
    assert_eq!(
        order(&root, "m2", "test.pnig", None).await,
        Ok(()),
        "nobody gets it"
    );

    // Another version of the minion may be behind the next session.
    let trust = MasterTrust::Pinned(deployment.master_keys());
    let again = Peer::come(deployment.network().await, m1.credentials.clone(), &trust).await;
    again.reconcile().await;
    assert_eq!(order(&root, "m1", "test.pnig", None).await, Ok(()));
}

#[tokio::test]
async fn who_may_not_call_a_function_is_not_told_whether_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "operators:\n  anna: ['test.ping']\n";
    std::fs::write(folder.path().join("master"), rules).unwrap();
    let read = MasterConfig::load(folder.path(), &[]).unwrap().config;
    let deployment = Deployment::start_with(|config| {
        config.auto_accept = true;
        config.operators = read.operators;
    })
    .await;
    let anna = operator(&deployment, "anna").await;
    let m1 = deployment.minion("m1").await;
    m1.ask(request(&functions(&["test.ping", "vhosts.enable"]), true))
        .await;
    assert_eq!(order(&anna, "m1", "test.ping", None).await, Ok(()));
    let known = order(&anna, "m1", "vhosts.enable", None).await.unwrap_err();
    let unknown = order(&anna, "m1", "vhosts.enabel", None).await.unwrap_err();
    assert_eq!(known, unknown.replace("enabel", "enable"));
    assert!(!unknown.contains("did you mean"), "{unknown}");
}
