//! Runners as an operator's program asks for them: begun once, bounded, and read in parts.

use saline_channel::MasterTrust;
use saline_data::{Packed, Value};
use saline_messages::{
    Event, Jid, KeyAction, KeyState, LastSeen, MinionId, MinionRequest, OperatorReply,
    OperatorRequest, PublishRequest, RequestId, RunnerCall, RunnerReply, RunnerRequest,
};
use saline_protocol::transport::Delivery;
use saline_targeting::Target;

use crate::operator_rules::operator;
use crate::support::runner::{ask, call, end, value};
use crate::support::{Deployment, Peer, TEST_TIMEOUT};

/// A run that does not end by itself: it waits for a minion that does not answer.
fn endless() -> RunnerCall {
    RunnerCall {
        timeout_ms: Some(u64::MAX),
        is_async: true,
        ..call("doc.execution", &[])
    }
}

async fn begin(operator: &Peer, call: &RunnerCall) -> Jid {
    match ask(operator, RunnerRequest::Run(call.clone())).await {
        RunnerReply::Begun(jid) => jid,
        other => panic!("{other:?}"),
    }
}

async fn under_way(operator: &Peer) -> usize {
    match value(operator, "jobs.master", &[]).await {
        Value::List(runs) => runs.len(),
        other => panic!("{other:?}"),
    }
}

async fn deployment() -> (Deployment, Peer, Peer) {
    let deployment = Deployment::start_with(|config| {
        config.auto_accept = true;
        config.timeout = TEST_TIMEOUT * 100;
    })
    .await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    (deployment, operator, minion)
}

#[tokio::test]
async fn a_request_that_is_repeated_begins_one_run() {
    let (_deployment, operator, _minion) = deployment().await;
    let endless = endless();
    let jid = begin(&operator, &endless).await;
    assert_eq!(begin(&operator, &endless).await, jid);
    assert_eq!(under_way(&operator).await, 1);
    let request_id = endless.request_id;
    let kill = || ask(&operator, RunnerRequest::Kill { request_id });
    assert_eq!(kill().await, RunnerReply::Ending(Vec::new()));
    let waited = RunnerCall {
        is_async: false,
        ..endless
    };
    let (ended, _) = end(&operator, waited).await;
    assert_eq!(
        ended.error.as_deref(),
        Some("the run was ended before it was done")
    );
    assert!(!ended.success);
    assert_eq!(under_way(&operator).await, 0);
    // What has ended can be ended once more, and what never was cannot.
    assert_eq!(kill().await, RunnerReply::Ending(Vec::new()));
    let request_id = RequestId([3; 16]);
    for request in [
        RunnerRequest::Kill { request_id },
        RunnerRequest::Keep { request_id },
        RunnerRequest::Part {
            request_id,
            offset: 0,
        },
    ] {
        assert_eq!(ask(&operator, request).await, RunnerReply::NoSuchRun);
    }
}

#[tokio::test]
async fn so_many_runs_are_under_way_at_once_and_no_more() {
    let (_deployment, operator, _minion) = deployment().await;
    let mut calls = Vec::new();
    for _ in 0..32 {
        let endless = endless();
        begin(&operator, &endless).await;
        calls.push(endless);
    }
    let refused = ask(&operator, RunnerRequest::Run(call("manage.up", &[]))).await;
    let RunnerReply::Refused(why) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.starts_with("32 runners are under way"), "{why}");
    // Those that were begun are still answered for, they can be seen and ended, and one that ends makes room.
    begin(&operator, &calls[0]).await;
    assert_eq!(under_way(&operator).await, 32);
    let request_id = calls[0].request_id;
    ask(&operator, RunnerRequest::Kill { request_id }).await;
    let waited = RunnerCall {
        is_async: false,
        ..calls[0].clone()
    };
    end(&operator, waited).await;
    assert_eq!(under_way(&operator).await, 31);
    value(&operator, "manage.up", &[]).await;
}

#[tokio::test]
async fn one_operator_does_not_take_the_runs_of_others() {
    let (deployment, root, _minion) = deployment().await;
    let alice = operator(&deployment, "alice").await;
    for _ in 0..8 {
        begin(&alice, &endless()).await;
    }
    let refused = ask(&alice, RunnerRequest::Run(endless())).await;
    let RunnerReply::Refused(why) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.starts_with("8 runners of yours are under way"), "{why}");
    // What looks at runs and ends them still begins, and so does what others ask for.
    assert_eq!(under_way(&alice).await, 8);
    begin(&root, &endless()).await;
}

#[tokio::test]
async fn a_return_that_is_larger_than_a_message_comes_in_parts() {
    let deployment = Deployment::start_with(|config| config.max_message_size = 4_096).await;
    let operator = deployment.operator().await;
    let (end, parts) = end(&operator, call("doc.runner", &[])).await;
    assert!(parts > 2, "{parts}");
    let Value::Map(docs) = end.value().unwrap() else {
        panic!("{end:?}");
    };
    assert!(docs.iter().any(|(name, _)| name == "jobs.list_jobs"));
    assert!(docs.iter().any(|(name, _)| name == "state.event"));
}

#[tokio::test]
async fn a_run_is_kept_that_its_operator_leaves() {
    let (_deployment, operator, _minion) = deployment().await;
    // One that is under way, and one that has ended.
    let left = RunnerCall {
        is_async: false,
        ..endless()
    };
    let waiting = ask(&operator, RunnerRequest::Run(left.clone()));
    let keep = |request_id| RunnerRequest::Keep { request_id };
    let kill = async {
        loop {
            match ask(&operator, keep(left.request_id)).await {
                RunnerReply::Kept(jid) => break jid,
                // It is not begun yet.
                RunnerReply::NoSuchRun => tokio::task::yield_now().await,
                other => panic!("{other:?}"),
            }
        }
    };
    let (jid, _) = tokio::join!(kill, waiting);
    let request_id = left.request_id;
    ask(&operator, RunnerRequest::Kill { request_id }).await;
    end(&operator, left).await;
    let ended = call("config.get", &["timeout", "mine"]);
    end(&operator, ended.clone()).await;
    let RunnerReply::Kept(other) = ask(&operator, keep(ended.request_id)).await else {
        panic!("it is not kept");
    };
    for (jid, expected) in [
        (&jid, "the run was ended before it was done"),
        (&other, "mine"),
    ] {
        // The store may take a moment for the first.
        let stored = loop {
            match value_of(&operator, jid).await {
                Some(stored) => break stored,
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!(stored, Value::from(expected), "{jid}");
    }
}

/// Returns what `jobs.lookup_jid` has of a run.
async fn value_of(operator: &Peer, jid: &Jid) -> Option<Value> {
    let (end, _) = end(operator, call("jobs.lookup_jid", &[jid.as_str()])).await;
    match end.value().unwrap() {
        Value::Map(mut entries) => entries.pop().map(|(_, value)| value),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn metadata_are_a_mapping_of_bounded_size() {
    let (_deployment, operator, _minion) = deployment().await;
    let publish = async |metadata: Packed| {
        let request = PublishRequest {
            metadata: Some(metadata),
            ..PublishRequest::new(
                RequestId::random().unwrap(),
                Target::glob("m1"),
                "test.ping",
                "root",
            )
        };
        operator.order(OperatorRequest::Publish(request)).await
    };
    let large = Value::map([("x", Value::Bytes(vec![0; 64 * 1024]))]);
    for (metadata, why) in [
        (Packed::pack(&large), "the metadata have "),
        (
            Packed::pack(&Value::Int(1)),
            "the metadata of a job are a mapping",
        ),
        (Packed::from_bytes(vec![0xc1]), "the metadata of the job: "),
    ] {
        match publish(metadata).await {
            OperatorReply::Invalid(said) => assert!(said.starts_with(why), "{said}"),
            other => panic!("{other:?}"),
        }
    }
    let good = Packed::pack(&Value::map([("ticket", Value::Int(1))]));
    let OperatorReply::Published(published) = publish(good).await else {
        panic!("it was not published");
    };
    let jid = published.jid.unwrap();
    let job = value(&operator, "jobs.list_job", &[jid.as_str()]).await;
    assert_eq!(
        job.get("Metadata").unwrap().get("ticket"),
        Some(&Value::Int(1))
    );
}

#[tokio::test]
async fn an_event_is_not_sent_twice_because_the_master_was_started_again() {
    let (deployment, operator, _minion) = deployment().await;
    let send = call("event.send", &["my/tag"]);
    let (first, _) = end(&operator, send.clone()).await;
    assert_eq!((first.error, first.success), (None, true));
    let status = call("manage.up", &[]);
    let (known, _) = end(&operator, status.clone()).await;
    assert_eq!(known.error, None);
    drop(operator);

    // The reply was lost with the master, and its operator asks the next one.
    let deployment = deployment.restart(|_| ()).await;
    let operator = deployment.operator().await;
    let mut events = operator.events("event/my").await;
    let (again, _) = end(&operator, send).await;
    let error = again.error.unwrap();
    assert!(error.contains("after event.send had begun"), "{error}");
    // A function without effects is started over.
    let (repeated, _) = end(&operator, status).await;
    assert_eq!(repeated.error, None);
    // Another request is another event, and the first one that is heard.
    let (other, _) = end(&operator, call("event.send", &["my/other"])).await;
    assert_eq!(other.error, None);
    let heard = loop {
        if let Delivery::Message { payload, .. } = events.next().await.unwrap() {
            break Event::decode(&payload).unwrap();
        }
    };
    assert_eq!(heard.tag, "my/other");
}

async fn last_seen(operator: &Peer, id: &str) -> Vec<LastSeen> {
    let asked = OperatorRequest::LastSeen(vec![MinionId::parse(id).unwrap()]);
    match operator.order(asked).await {
        OperatorReply::LastSeen(last_seen) => last_seen,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_master_tells_when_it_saw_each_key_last() {
    let deployment = Deployment::start(false).await;
    let operator = deployment.operator().await;
    assert_eq!(last_seen(&operator, "m1").await, []);

    let pending = deployment.minion("m1").await;
    pending.ask(MinionRequest::Poll).await;
    let identity = pending.credentials.identity.public().0;
    let seen = last_seen(&operator, "m1").await;
    assert_eq!((seen.len(), seen[0].identity), (1, identity));
    assert!(!seen[0].is_accepted && seen[0].heard_ms.unwrap() < 30_000);

    operator
        .act(KeyAction::Accept, KeyState::Pending, "m1")
        .await;
    pending.ask(MinionRequest::Poll).await;
    let seen = last_seen(&operator, "m1").await;
    assert!(seen.len() == 1 && seen[0].is_accepted, "{seen:?}");

    // A minion that says goodbye is remembered, also when its key is deleted: it may be accepted again.
    let trust = MasterTrust::Pinned(deployment.master_keys());
    let accepted = Peer::come(deployment.network().await, pending.credentials, &trust).await;
    accepted.reconcile().await;
    accepted.ask(MinionRequest::Goodbye(None)).await;
    let seen = last_seen(&operator, "m1").await;
    assert!(seen.len() == 1 && seen[0].is_accepted, "{seen:?}");
    operator
        .act(KeyAction::Delete, KeyState::Accepted, "m1")
        .await;
    let seen = last_seen(&operator, "m1").await;
    assert!(seen.len() == 1 && !seen[0].is_accepted, "{seen:?}");

    // As after a rejection that was a mistake: it is heard as before, and known to be.
    let minion = deployment.minion("m2").await;
    for (action, from, to) in [
        (KeyAction::Accept, KeyState::Pending, true),
        (KeyAction::Reject, KeyState::Accepted, false),
        (KeyAction::Accept, KeyState::Rejected, false),
    ] {
        assert_eq!(operator.act(action, from, "m2").await, 1);
        if to {
            let credentials = minion.credentials.clone();
            let accepted = Peer::come(deployment.network().await, credentials, &trust).await;
            accepted.reconcile().await;
        }
        let seen = last_seen(&operator, "m2").await;
        assert!(seen.len() == 1 && seen[0].is_accepted == to, "{seen:?}");
    }
}
