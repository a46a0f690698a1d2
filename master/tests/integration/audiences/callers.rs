//! Callers: programs beside a minion that have its key.

use saline_channel::{ChannelError, MasterTrust};
use saline_data::{Packed, Value};
use saline_messages::{
    Admission, Arguments, CallerReply, CallerRequest, CallerReturn, Class, Event, KeyAction,
    KeyRequest, KeyState, MAX_CALL_ARGUMENTS, MAX_CALL_NAME, OperatorReply, OperatorRequest,
    Refusal, RefusedVerb, RequestId, Role, RunnerCall,
};
use saline_protocol::transport::{Clock, Delivery};
use serde::Serialize;

use super::caller_verbs::of_callers;
use super::{Scene, check_empty_pillar, check_nothing_found, verbs};
use crate::support::{Peer, TEST_TIMEOUT, credentials, runner};

/// Returns a caller with the key of this peer.
async fn caller(scene: &Scene, beside: &Peer) -> Peer {
    let trust = MasterTrust::Pinned(scene.deployment.master_keys());
    let network = scene.deployment.network().await;
    let mut credentials = beside.credentials.clone();
    credentials.role = Role::Caller;
    Peer::come(network, credentials, &trust).await
}

async fn ask_caller<Q: Serialize>(peer: &Peer, verb: &Q) -> Result<CallerReply, ChannelError> {
    let deadline = Clock.after(TEST_TIMEOUT);
    let session = &peer.established.session;
    session
        .ask(&*peer.client, Class::Event, verb, deadline)
        .await
}

fn is_harmless(reply: &CallerReply) -> bool {
    matches!(
        reply,
        CallerReply::Refused(RefusedVerb::Malformed) | CallerReply::Done
    )
}

#[tokio::test]
async fn a_caller_without_an_accepted_key_gets_no_session() {
    let scene = Scene::new().await;
    let trust = MasterTrust::Pinned(scene.deployment.master_keys());
    let keys = |operator: OperatorReply| match operator {
        OperatorReply::Keys(reply) => reply.keys,
        other => panic!("{other:?}"),
    };
    let list = || OperatorRequest::Keys(KeyRequest::List);
    let before = keys(scene.operator.order(list()).await);
    // Another key under the id of a minion, and an id that nobody has.
    for id in ["victim", "nobody"] {
        let network = scene.deployment.network().await;
        let caller = Peer::come(network, credentials(Role::Caller, id), &trust).await;
        assert_eq!(caller.established.answer, Admission::Rejected);
        for verb in of_callers() {
            let reply = ask_caller(&caller, &verb).await;
            assert!(
                matches!(reply, Err(ChannelError::Refused(Refusal::UnknownSession))),
                "{reply:?}"
            );
        }
        scene.check("a caller without a key").await;
    }
    let after = keys(scene.operator.order(list()).await);
    assert_eq!(after, before, "it waits for nobody's acceptance");
}

#[tokio::test]
async fn a_caller_acts_for_its_minion_alone_and_takes_nothing_from_it() {
    let scene = Scene::new().await;
    let mut bus = scene.operator.events("event/salt/minion").await;
    let caller = caller(&scene, &scene.victim).await;
    for verb in of_callers() {
        match (&verb, ask_caller(&caller, &verb).await.unwrap()) {
            (CallerRequest::Return(_), CallerReply::Stored(jid)) => {
                let again = ask_caller(&caller, &verb).await.unwrap();
                assert_eq!(again, CallerReply::Stored(jid.clone()), "it is stored once");
                let job = runner::value(&scene.operator, "jobs.list_job", &[jid.as_str()]).await;
                let shown = |name| job.get(name).and_then(Value::as_str);
                assert_eq!(shown("Operator"), Some("saline-call on victim"));
                assert_eq!(shown("Function"), Some("test.called"));
                assert_eq!(shown("Target"), Some("victim"));
            }
            (CallerRequest::FireEvents(_), CallerReply::Done) => {
                let Some(Delivery::Message { payload, .. }) = bus.next().await else {
                    panic!("the bus ended");
                };
                assert_eq!(
                    Event::decode(&payload).unwrap().tag,
                    "salt/minion/victim/forged"
                );
            }
            (CallerRequest::Pillar(_), CallerReply::Pillar(reply)) => check_empty_pillar(&reply),
            (CallerRequest::Mine(_), CallerReply::Mine(reply)) => check_nothing_found(&reply),
            (CallerRequest::CheckReturners(_), CallerReply::Done) => {}
            (verb, reply) => panic!("{verb:?}: {reply:?}"),
        }
        // The minion's own session goes on, and its job is not the caller's.
        scene.check(&format!("{verb:?}")).await;
    }
    // Whatever the bytes of others' verbs mean as a caller's, nothing of others is told or done.
    for verb in verbs::of_operators(&scene.jid) {
        let reply = ask_caller(&caller, &verb).await.unwrap();
        assert!(is_harmless(&reply), "{verb:?}: {reply:?}");
    }
    for verb in verbs::of_minions(&scene.jid) {
        let reply = ask_caller(&caller, &verb).await.unwrap();
        assert!(is_harmless(&reply), "{verb:?}: {reply:?}");
    }
    scene.check("a caller").await;
}

#[tokio::test]
async fn a_call_of_what_is_no_function_and_one_with_large_arguments_are_not_stored() {
    let scene = Scene::new().await;
    let caller = caller(&scene, &scene.victim).await;
    let CallerRequest::Return(good) = of_callers().swap_remove(0) else {
        panic!("the first verb is a return");
    };
    let large = Arguments {
        positional: vec!["x".repeat(MAX_CALL_ARGUMENTS).into()],
        named: Vec::new(),
    };
    for bad in [
        CallerReturn {
            fun: "f".repeat(MAX_CALL_NAME + 1),
            ..good.clone()
        },
        CallerReturn {
            fun: "test.version; rm -rf /".into(),
            ..good.clone()
        },
        CallerReturn {
            arg: large.pack(),
            ..good
        },
    ] {
        let reply = ask_caller(&caller, &CallerRequest::Return(bad)).await;
        assert_eq!(reply.unwrap(), CallerReply::Refused(RefusedVerb::Malformed));
    }
    let with_calls = Arguments {
        positional: Vec::new(),
        named: vec![("include_calls".to_owned(), Value::Bool(true))],
    };
    let call = RunnerCall {
        arg: with_calls.pack(),
        ..runner::call("jobs.list_jobs", &[])
    };
    let (listed, _) = runner::end(&scene.operator, call).await;
    let listed = format!("{:?}", listed.value().unwrap());
    assert!(!listed.contains("saline-call on victim"), "{listed}");
}

#[tokio::test]
async fn a_caller_cannot_take_over_the_call_of_another() {
    let scene = Scene::new().await;
    let other = scene.deployment.minion("other").await;
    let (first, second) = (
        caller(&scene, &scene.victim).await,
        caller(&scene, &other).await,
    );
    let returned = of_callers().swap_remove(0);
    assert!(matches!(
        ask_caller(&first, &returned).await,
        Ok(CallerReply::Stored(_))
    ));
    // The same number from another minion finds the job of the first, and changes nothing.
    let refused = CallerReply::Refused(RefusedVerb::Malformed);
    assert_eq!(ask_caller(&second, &returned).await.unwrap(), refused);
}

#[tokio::test]
async fn a_caller_whose_key_was_deleted_is_told_so() {
    let scene = Scene::new().await;
    for verb in of_callers() {
        let minion = scene.deployment.minion("deleted").await;
        let caller = caller(&scene, &minion).await;
        let operator = &scene.operator;
        let deleted = operator.act(KeyAction::Delete, KeyState::Accepted, "deleted");
        assert_eq!(deleted.await, 1);
        let gone = CallerReply::Refused(RefusedVerb::KeyGone);
        assert_eq!(ask_caller(&caller, &verb).await.unwrap(), gone, "{verb:?}");
        scene.check("a caller whose key is gone").await;
    }
}

#[tokio::test]
async fn a_minions_key_holds_few_sessions_of_callers() {
    let scene = Scene::new().await;
    let mut callers = Vec::new();
    let is_fire = |verb: &CallerRequest| matches!(verb, CallerRequest::FireEvents(_));
    let fire = of_callers().into_iter().find(is_fire).unwrap();
    for _ in 0..17 {
        let caller = caller(&scene, &scene.victim).await;
        assert_eq!(ask_caller(&caller, &fire).await.unwrap(), CallerReply::Done);
        callers.push(caller);
    }
    let first = ask_caller(&callers[0], &fire).await;
    assert!(
        matches!(first, Err(ChannelError::Refused(Refusal::UnknownSession))),
        "{first:?}"
    );
    for caller in &callers[1..] {
        assert_eq!(ask_caller(caller, &fire).await.unwrap(), CallerReply::Done);
    }
    scene.check("many callers").await;
}

#[tokio::test]
async fn what_a_minions_calls_store_is_bounded() {
    let scene = Scene::new().await;
    let caller = caller(&scene, &scene.victim).await;
    let store = |user: &str| {
        let Some(CallerRequest::Return(mut returned)) = of_callers().into_iter().next() else {
            panic!("the first verb of callers");
        };
        returned.request_id = RequestId::random().unwrap();
        returned.user = user.to_owned();
        CallerRequest::Return(returned)
    };
    let long = ask_caller(&caller, &store(&"u".repeat(257))).await.unwrap();
    assert_eq!(long, CallerReply::Refused(RefusedVerb::Malformed));
    let mut stored = 0;
    // A hundred at once, and ten more in each second that this takes.
    for _ in 0..10_000 {
        match ask_caller(&caller, &store("root")).await.unwrap() {
            CallerReply::Stored(_) => stored += 1,
            CallerReply::Busy { .. } => {
                // The first took one as well.
                assert!(stored >= 99, "{stored}");
                return;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("{stored} were stored");
}

#[tokio::test]
async fn the_bytes_that_a_minions_calls_store_are_bounded() {
    let scene = Scene::new().await;
    let caller = caller(&scene, &scene.victim).await;
    // The master admits a connection by a small request.
    ask_caller(&caller, &of_callers()[1]).await.unwrap();
    let mut stored = 0;
    for _ in 0..100 {
        let Some(CallerRequest::Return(mut returned)) = of_callers().into_iter().next() else {
            panic!("the first verb of callers");
        };
        returned.request_id = RequestId::random().unwrap();
        returned.payload = Packed::pack(&Value::Bytes(vec![1; 1_000_000]));
        match ask_caller(&caller, &CallerRequest::Return(returned))
            .await
            .unwrap()
        {
            CallerReply::Stored(_) => stored += 1,
            CallerReply::Busy { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    // 16 MiB, the one that exceeds them, and 16 KiB for each second that this takes.
    assert!((17..40).contains(&stored), "{stored}");
    scene.check("a caller that stores much").await;
}
