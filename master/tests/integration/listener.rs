//! The listener and the verbs behind it, over the in-memory transport.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use saline_channel::noise::{InitiatorKeys, Resumption};
use saline_channel::publication::Content;
use saline_channel::{ChannelError, Credentials, Identity, MasterTrust, NoiseKey};
use saline_data::{Packed, Value};
use saline_master::Master;
use saline_messages::{
    Admission, Class, Event, Header, Jid, KeyAction, KeyRequest, KeyState, Kind, MAX_EVENTS,
    MAX_RETURNS, MinionEvent, MinionEvents, MinionJobState, MinionReply, MinionRequest,
    OperatorReply, OperatorRequest, ProtocolVersions, Refusal, RefusedVerb, RequestId, Return,
    ReturnVerdict, Role, StartId,
};
use saline_protocol::transport::{Clock, Delivery};

use crate::support::{Deployment, Peer, TEST_TIMEOUT};

#[tokio::test]
async fn the_answer_to_an_acceptance_waits_for_a_minion_that_polls() {
    let deployment = Deployment::start(false).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    let poll = || Box::pin(minion.ask(MinionRequest::Poll));
    // A later poll takes the place of the one before, which is answered: then the other one is held.
    let (mut one, mut other) = (poll(), poll());
    let (told, held) = tokio::select! {
        told = &mut one => (told, other),
        told = &mut other => (told, one),
    };
    assert_eq!(told, MinionReply::Auth(Admission::Pending(None)));
    let began = Clock.now();
    let accepted = operator.act(KeyAction::Accept, KeyState::Pending, "m1");
    let (told, accepted) = tokio::join!(held, accepted);
    assert_eq!(accepted, 1);
    assert!(
        matches!(told, MinionReply::Auth(Admission::Accepted(_))),
        "{told:?}"
    );
    // It did not reconcile: it was waited for, for as long as it may be.
    assert!(Clock.now() - began >= Duration::from_millis(900));
}

#[tokio::test]
async fn a_key_waits_is_accepted_and_a_job_walks() {
    let deployment = Deployment::start(false).await;
    let operator = deployment.operator().await;
    let mut minion = deployment.minion("m1").await;
    assert_eq!(minion.established.answer, Admission::Pending(None));
    // It may poll, and nothing else.
    assert_eq!(
        minion
            .ask(MinionRequest::PendingJobs {
                after: None,
                bytes: u64::MAX
            })
            .await,
        MinionReply::Refused(RefusedVerb::Malformed)
    );
    let accepted = operator.act(KeyAction::Accept, KeyState::Pending, "m1");
    assert_eq!(accepted.await, 1);
    match minion.ask(MinionRequest::Poll).await {
        MinionReply::Auth(answer @ Admission::Accepted(_)) => minion.established.answer = answer,
        other => panic!("{other:?}"),
    }
    minion.reconcile().await;

    let mut listener = minion.listen().await;
    let published = operator.publish("*").await;
    assert_eq!(published.minions, [(minion.id(), MinionJobState::Offered)]);
    let job = listener.job().await;
    assert_eq!(Some(&job.jid), published.jid.as_ref());
    assert_eq!(minion.give_back(&job).await, ReturnVerdict::Stored);
    assert_eq!(minion.give_back(&job).await, ReturnVerdict::Duplicate);
    let request = OperatorRequest::JobReturns {
        jid: job.jid.clone(),
        after: 0,
    };
    match operator.order(request).await {
        OperatorReply::Returns(page) => assert_eq!(page.returns.len(), 1),
        other => panic!("{other:?}"),
    }
    let request = OperatorRequest::JobStates {
        jid: job.jid,
        after: None,
    };
    match operator.order(request).await {
        OperatorReply::States(page) => {
            assert_eq!(page.states, [(minion.id(), MinionJobState::Returned)]);
        }
        other => panic!("{other:?}"),
    }
    deployment.master.shutdown(TEST_TIMEOUT).await;
}

#[tokio::test]
async fn the_same_request_publishes_once() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    let mut listener = minion.listen().await;
    let request = RequestId::random().unwrap();
    let first = operator.publish_as("*", request).await;
    let again = operator.publish_as("*", request).await;
    assert_eq!(first, again);
    let other = operator.publish("*").await;
    assert_eq!(Some(listener.job().await.jid), first.jid);
    assert_eq!(Some(listener.job().await.jid), other.jid);
}

#[tokio::test]
async fn a_deleted_key_ends_its_session_at_once_and_the_others_get_a_new_group_key() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let (gone, stays) = (
        deployment.minion("gone").await,
        deployment.minion("stays").await,
    );
    let mut listener = stays.listen().await;
    let before = stays.group().epoch;
    let deleted = operator.act(KeyAction::Delete, KeyState::Accepted, "gone");
    assert_eq!(deleted.await, 1);
    assert_eq!(listener.next().await, Content::NewEpoch(before + 1));
    assert_eq!(
        gone.ask_in_ended_session(&MinionRequest::PendingJobs {
            after: None,
            bytes: u64::MAX
        })
        .await,
        MinionReply::Refused(RefusedVerb::KeyGone)
    );
    // And nobody had to authenticate again.
    operator.publish("*").await;
    assert_eq!(listener.job().await.fun, "test.ping");
}

#[tokio::test]
async fn another_key_under_a_known_id_is_denied() {
    let deployment = Deployment::start(true).await;
    let first = deployment.minion("m1").await;
    let second = deployment.minion("m1").await;
    assert_eq!(second.established.answer, Admission::Denied);
    assert_eq!(first.pending().await, []);
}

#[tokio::test]
async fn a_minion_gives_no_orders_and_an_operator_needs_the_root_key() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let session = &minion.established.session;
    let order = OperatorRequest::Keys(KeyRequest::List);
    let deadline = Clock.after(TEST_TIMEOUT);
    let reply: MinionReply = session
        .ask(&*minion.client, Class::Event, &order, deadline)
        .await
        .unwrap();
    // Its bytes are read as what a minion may ask, whatever that is; no key is ever told.
    assert_eq!(reply, MinionReply::Verdicts(Vec::new()));

    let trust = MasterTrust::Pinned(deployment.master_keys());
    let mut credentials = Credentials {
        role: Role::Operator,
        id: "root".into(),
        identity: Arc::new(Identity::generate().unwrap()),
        noise: NoiseKey::generate().unwrap(),
        versions: ProtocolVersions::OURS,
    };
    let stranger = Peer::come(deployment.network().await, credentials.clone(), &trust).await;
    assert_eq!(stranger.established.answer, Admission::Rejected);
    // The right key over the network is not enough either: it is the local operator's.
    credentials.identity = Arc::new(Identity::read(&deployment.config.root_key()).unwrap());
    let remote = Peer::come(deployment.network().await, credentials, &trust).await;
    assert_eq!(remote.established.answer, Admission::Rejected);
}

#[tokio::test]
async fn more_returns_than_one_request_may_have_are_refused() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let returned = Return {
        jid: Jid::parse("20261121000000000001").unwrap(),
        fun: "test.ping".into(),
        retcode: 0,
        success: true,
        payload: Packed::pack(&Value::Bool(true)),
    };
    let most = vec![returned.clone(); MAX_RETURNS];
    let unknown = MinionReply::Verdicts(vec![ReturnVerdict::UnknownJob; MAX_RETURNS]);
    assert_eq!(
        minion.ask(MinionRequest::Returns(most.clone())).await,
        unknown
    );
    let more = [most, vec![returned]].concat();
    assert_eq!(
        minion.ask(MinionRequest::Returns(more)).await,
        MinionReply::Refused(RefusedVerb::Malformed)
    );
}

/// The first message with which a minion resumes.
fn resumption(deployment: &Deployment, minion: &Peer) -> Bytes {
    let now = Clock.wall().duration_since(UNIX_EPOCH).unwrap();
    let keys = InitiatorKeys {
        role: Role::Minion,
        id: &minion.credentials.id,
        identity: &minion.credentials.identity,
        noise: &minion.credentials.noise,
        certificate: None,
        versions: ProtocolVersions::OURS,
        attempted: now.as_nanos().try_into().unwrap(),
    };
    let (_, body) = Resumption::begin(keys, &deployment.master_keys().noise.unwrap()).unwrap();
    Header::bare(Kind::Resume, Class::Resume).with_body(&body)
}

#[tokio::test]
async fn a_new_session_takes_the_place_of_the_old_one_which_is_told() {
    let deployment = Deployment::start(true).await;
    let old = deployment.minion("m1").await;
    let trust = MasterTrust::Pinned(old.established.master.clone());
    let new = Peer::come(deployment.network().await, old.credentials.clone(), &trust).await;
    // Until it has reconciled nothing has changed.
    assert_eq!(old.pending().await, []);
    assert_eq!(new.pending().await, []);
    assert_eq!(old.pending().await, []);
    new.reconcile().await;
    assert_eq!(
        old.ask_in_ended_session(&MinionRequest::PendingJobs {
            after: None,
            bytes: u64::MAX
        })
        .await,
        MinionReply::Refused(RefusedVerb::Replaced)
    );
}

/// As when the master may open no more files.
#[tokio::test]
async fn an_accepted_key_that_cannot_be_read_now_is_no_unaccepted_one() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let folder = deployment.config.paths.pki_dir.join("minions");
    let aside = folder.with_file_name("aside");
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, "").unwrap();
    let resume = async || {
        let message = resumption(&deployment, &minion);
        let answer = minion.client.request(message, Clock.after(TEST_TIMEOUT));
        Header::decode(&answer.await.unwrap()).unwrap().0.kind
    };
    assert_eq!(resume().await, Kind::Busy);
    let mut master = deployment.master_keys();
    master.noise = None;
    let trust = MasterTrust::Pinned(master);
    let network = deployment.network().await;
    let again = Peer::come(network, minion.credentials.clone(), &trust).await;
    assert_eq!(
        again.established.answer,
        Admission::Full,
        "to be asked again"
    );
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    let network = deployment.network().await;
    let again = Peer::come(network, minion.credentials.clone(), &trust).await;
    assert!(matches!(again.established.answer, Admission::Accepted(_)));
    assert_eq!(resume().await, Kind::ResumeReply);
}

#[tokio::test]
async fn what_was_missed_is_caught_up_by_those_it_was_offered_to() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    assert_eq!(minion.pending().await, []);
    let published = operator.publish("m*").await;
    let jobs = minion.pending().await;
    assert_eq!(Some(&jobs[0].jid), published.jid.as_ref());
    // Nobody else gets it, nor may return it.
    let other = deployment.minion("other").await;
    assert_eq!(other.pending().await, []);
    assert_eq!(other.give_back(&jobs[0]).await, ReturnVerdict::NotOffered);
    assert_eq!(minion.give_back(&jobs[0]).await, ReturnVerdict::Stored);
    assert_eq!(minion.pending().await, []);
}

#[tokio::test]
async fn garbage_is_refused_and_costs_nobody_anything() {
    let deployment = Deployment::start(true).await;
    let client = deployment.network().await;
    let mut unknown_session = vec![1, 8];
    unknown_session.extend([7; 16]);
    unknown_session.extend([3, 0, 0, 0, 0, 0, 0, 0, 0]);
    let too_long = Header::bare(Kind::First, Class::First).with_body(&[1; 60_000]);
    for bytes in [
        Vec::new(),
        vec![0xff; 100],
        vec![1; 27],
        unknown_session,
        too_long.to_vec(),
    ] {
        let reply = client
            .request(bytes.into(), Clock.after(TEST_TIMEOUT))
            .await
            .unwrap();
        assert_eq!(Header::decode(&reply).unwrap().0.kind, Kind::Refused);
    }
    let minion = deployment.minion("m1").await;
    assert!(matches!(minion.established.answer, Admission::Accepted(_)));
}

#[tokio::test]
async fn a_session_does_not_outlive_its_master() {
    let mut deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    deployment.master.shutdown(TEST_TIMEOUT).await;
    deployment.master = Master::start(deployment.config.clone(), &deployment.registry)
        .await
        .unwrap();
    let refused = minion
        .try_ask(&MinionRequest::PendingJobs {
            after: None,
            bytes: u64::MAX,
        })
        .await;
    assert!(
        matches!(refused, Err(ChannelError::Refused(Refusal::UnknownSession))),
        "{refused:?}"
    );
    let trust = MasterTrust::Pinned(minion.established.master);
    let again = Peer::come(minion.client, minion.credentials, &trust).await;
    assert!(matches!(again.established.answer, Admission::Accepted(_)));
}

#[tokio::test]
async fn a_captured_resume_does_not_bring_a_deleted_key_back() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    let captured = resumption(&deployment, &minion);
    let deleted = operator.act(KeyAction::Delete, KeyState::Accepted, "m1");
    assert_eq!(deleted.await, 1);
    let reply = minion
        .client
        .request(captured, Clock.after(TEST_TIMEOUT))
        .await
        .unwrap();
    assert_eq!(Header::decode(&reply).unwrap().0.kind, Kind::Refused);
    match operator
        .order(OperatorRequest::Keys(KeyRequest::List))
        .await
    {
        OperatorReply::Keys(reply) => assert_eq!(reply.keys, []),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_a_minion_fires_is_bounded() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let fire = |first: u64, events: &[(&str, &Packed)]| {
        let events = events.iter().map(|(tag, data)| MinionEvent {
            tag: (*tag).to_owned(),
            data: (*data).clone(),
        });
        MinionRequest::FireEvents(MinionEvents {
            start: StartId([1; 16]),
            first,
            events: events.collect(),
        })
    };
    let operator = deployment.operator().await;
    let mut bus = operator.events("event/salt/minion").await;
    let empty = &Packed::pack(&Value::Map(Vec::new()));
    let large = &Packed::from_bytes(vec![0xc0; 70_000]);
    // What cannot be fired does not keep the others back.
    let mixed = fire(
        1,
        &[
            ("one", empty),
            ("a b", empty),
            ("", empty),
            ("x", large),
            ("two", empty),
        ],
    );
    assert_eq!(minion.ask(mixed.clone()).await, MinionReply::Done);
    // Repeated, in part or whole, and by another start.
    assert_eq!(minion.ask(mixed).await, MinionReply::Done);
    let overlap = fire(5, &[("two", empty), ("three", empty)]);
    assert_eq!(minion.ask(overlap).await, MinionReply::Done);
    let MinionRequest::FireEvents(mut events) = fire(1, &[("four", empty)]) else {
        unreachable!("it was made above");
    };
    events.start = StartId([2; 16]);
    let again = MinionRequest::FireEvents(events);
    assert_eq!(minion.ask(again).await, MinionReply::Done);
    for tag in ["one", "two", "three", "four"] {
        let Some(Delivery::Message { payload, .. }) = bus.next().await else {
            panic!("the bus ended before {tag}");
        };
        let event = Event::decode(&payload).unwrap();
        assert_eq!(event.tag, format!("salt/minion/m1/{tag}"));
        assert_eq!(event.data.get("id").and_then(Value::as_str), Some("m1"));
    }
    let most = vec![("x", empty); MAX_EVENTS + 1];
    assert_eq!(
        minion.ask(fire(9, &most)).await,
        MinionReply::Refused(RefusedVerb::Malformed)
    );
}
