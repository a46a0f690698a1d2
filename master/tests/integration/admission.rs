//! Which connections the master has the transport admit, and when: what is too large for a stranger
//! waits in the client until then.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Deployment, Peer, TEST_TIMEOUT};
use saline_channel::publication::topic_all;
use saline_channel::{ChannelError, Credentials, MasterTrust};
use saline_data::Packed;
use saline_messages::{
    Admission, CallerReply, CallerRequest, Class, KeyAction, KeyState, MinionEvent, MinionEvents,
    MinionReply, MinionRequest, OperatorRequest, PublishRequest, RefusedVerb, RequestId, Role,
    StartId,
};
use saline_protocol::transport::{
    AdmissionLimits, Client, Clock, Delivery, ErrorKind, Subscriber, TopicFilter,
};
use saline_targeting::Target;

/// Returns a request that is larger than a stranger may send.
fn large() -> MinionRequest {
    let size = 2 * AdmissionLimits::default().max_message;
    MinionRequest::FireEvents(MinionEvents {
        start: StartId([1; 16]),
        first: 1,
        events: vec![MinionEvent {
            tag: "large".into(),
            data: Packed::from_bytes(vec![0xc0; size]),
        }],
    })
}

/// Asks in the minion's session, over a connection of its own choice.
async fn ask(
    minion: &Peer,
    client: &Arc<dyn Client>,
    request: &MinionRequest,
    within: Duration,
) -> Result<MinionReply, ErrorKind> {
    let deadline = Clock.after(within);
    let session = &minion.established.session;
    let asked = session.ask(&**client, Class::Event, request, deadline);
    asked.await.map_err(|error| match error {
        ChannelError::Transport(error) => error.kind(),
        other => panic!("{other}"),
    })
}

/// Long enough for a request to be answered, were it sent.
const A_WHILE: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_session_on_another_connection_begins_with_something_small() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    assert_eq!(minion.ask(large()).await, MinionReply::Done);
    let other = deployment.network().await;
    // Alone it waits, and never breaks the connection.
    let alone = ask(&minion, &other, &large(), A_WHILE).await;
    assert_eq!(alone, Err(ErrorKind::Unreachable));
    let (request, poll) = (large(), MinionRequest::Poll);
    let (large, small) = tokio::join!(
        ask(&minion, &other, &request, TEST_TIMEOUT),
        ask(&minion, &other, &poll, TEST_TIMEOUT)
    );
    assert_eq!(large, Ok(MinionReply::Done));
    assert!(matches!(small, Ok(MinionReply::Auth(_))), "{small:?}");
    deployment.master.shutdown(TEST_TIMEOUT).await;
}

#[tokio::test]
async fn a_session_is_admitted_on_one_connection() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let mut listener = minion.listen().await;
    let operator = deployment.operator().await;
    operator.publish("*").await;
    listener.job().await;
    // It speaks over another connection, as when the first was lost.
    let other = deployment.network().await;
    let polled = ask(&minion, &other, &MinionRequest::Poll, TEST_TIMEOUT).await;
    assert!(matches!(polled, Ok(MinionReply::Auth(_))), "{polled:?}");
    // The first would keep the limits of an admitted peer: it is cut.
    let next = Clock.deadline(Clock.after(TEST_TIMEOUT), listener.subscriber.next());
    assert_eq!(next.await.unwrap(), Some(Delivery::Disconnected));
    // The one that it uses stands, and is admitted.
    assert_eq!(
        ask(&minion, &other, &large(), TEST_TIMEOUT).await,
        Ok(MinionReply::Done)
    );
    deployment.master.shutdown(TEST_TIMEOUT).await;
}

/// Waits until a connection with a subscription was cut.
async fn is_cut(subscriber: &mut dyn Subscriber) {
    let deadline = Clock.after(TEST_TIMEOUT);
    loop {
        let next = Clock.deadline(deadline, subscriber.next()).await;
        match next.unwrap() {
            Some(Delivery::Disconnected) => return,
            Some(_) => {}
            None => panic!("the subscription ended"),
        }
    }
}

/// Makes one more session with the key of a minion, over a connection of its own.
async fn come_again(deployment: &Deployment, minion: &Peer) -> Peer {
    let trust = MasterTrust::FirstUse { finger: None };
    let credentials = minion.credentials.clone();
    Peer::come(deployment.network().await, credentials, &trust).await
}

#[tokio::test]
async fn a_first_contact_alone_admits_nobody() {
    let deployment = Deployment::start(true).await;
    let trust = MasterTrust::FirstUse { finger: None };
    let credentials = crate::support::credentials(Role::Minion, "m1");
    let minion = Peer::come(deployment.network().await, credentials, &trust).await;
    let alone = ask(&minion, &minion.client, &large(), A_WHILE).await;
    assert_eq!(alone, Err(ErrorKind::Unreachable));
    let polled = minion.ask(MinionRequest::Poll).await;
    assert!(matches!(polled, MinionReply::Auth(_)), "{polled:?}");
    assert_eq!(minion.ask(large()).await, MinionReply::Done);
    deployment.master.shutdown(TEST_TIMEOUT).await;
}

#[tokio::test]
async fn a_key_is_admitted_on_as_many_connections_as_it_has_sessions() {
    const SESSIONS: usize = 4;
    let deployment = Deployment::start(true).await;
    let first = deployment.minion("m1").await;
    let mut others = Vec::new();
    for _ in 0..12 {
        let again = come_again(&deployment, &first).await;
        let listener = again.listen().await;
        let polled = again.ask(MinionRequest::Poll).await;
        assert!(matches!(polled, MinionReply::Auth(_)), "{polled:?}");
        others.push((again, listener));
    }
    let stays = others.split_off(12 - (SESSIONS - 1));
    for (_, mut listener) in others {
        is_cut(&mut *listener.subscriber).await;
    }
    // Those that stand are admitted: of those that the key has, the one that reconciled goes last.
    for minion in [&first, &stays.last().unwrap().0] {
        assert_eq!(minion.ask(large()).await, MinionReply::Done);
    }
    deployment.master.shutdown(TEST_TIMEOUT).await;
}

#[tokio::test]
async fn the_connection_of_a_session_that_was_replaced_is_cut() {
    let deployment = Deployment::start(true).await;
    let first = deployment.minion("m1").await;
    let mut listener = first.listen().await;
    come_again(&deployment, &first).await.reconcile().await;
    is_cut(&mut *listener.subscriber).await;
    // It is told why on the next one, which is a stranger's.
    let replaced = MinionReply::Refused(RefusedVerb::Replaced);
    assert_eq!(first.ask(MinionRequest::Poll).await, replaced);
    let large = ask(&first, &first.client, &large(), A_WHILE).await;
    assert_eq!(large, Err(ErrorKind::Unreachable));
    deployment.master.shutdown(TEST_TIMEOUT).await;
}

#[tokio::test]
async fn the_connection_of_a_session_whose_key_is_gone_is_cut() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    let mut listener = minion.listen().await;
    let deleted = operator.act(KeyAction::Delete, KeyState::Accepted, "m1");
    assert_eq!(deleted.await, 1);
    is_cut(&mut *listener.subscriber).await;
    let gone = MinionReply::Refused(RefusedVerb::KeyGone);
    assert_eq!(minion.ask(MinionRequest::Poll).await, gone);
    deployment.master.shutdown(TEST_TIMEOUT).await;
}

#[tokio::test]
async fn a_caller_is_admitted_on_one_connection() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let credentials = Credentials {
        role: Role::Caller,
        ..minion.credentials.clone()
    };
    let trust = MasterTrust::FirstUse { finger: None };
    let caller = Peer::come(deployment.network().await, credentials, &trust).await;
    let other = deployment.network().await;
    let request = CallerRequest::FireEvents(MinionEvents {
        start: StartId([1; 16]),
        first: 1,
        events: Vec::new(),
    });
    let topics = vec![TopicFilter::Exact(topic_all())];
    let deadline = Clock.after(TEST_TIMEOUT);
    let subscribed = caller.client.subscribe(None, topics, deadline).await;
    let session = &caller.established.session;
    for client in [&caller.client, &other] {
        let asked = session.ask(&**client, Class::Event, &request, deadline);
        let reply: CallerReply = asked.await.unwrap();
        assert_eq!(reply, CallerReply::Done);
    }
    is_cut(&mut *subscribed.unwrap()).await;
    deployment.master.shutdown(TEST_TIMEOUT).await;
}

#[tokio::test]
async fn a_session_whose_key_waits_is_a_stranger() {
    let deployment = Deployment::start(false).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    let poll = MinionRequest::Poll;
    assert_eq!(minion.established.answer, Admission::Pending(None));
    let waits = ask(&minion, &minion.client, &large(), A_WHILE).await;
    assert_eq!(waits, Err(ErrorKind::Unreachable));
    let accepted = operator.act(KeyAction::Accept, KeyState::Pending, "m1");
    assert_eq!(accepted.await, 1);
    let told = minion.ask(poll).await;
    assert!(
        matches!(told, MinionReply::Auth(Admission::Accepted(_))),
        "{told:?}"
    );
    // The poll that told it so admitted it.
    assert_eq!(minion.ask(large()).await, MinionReply::Done);
    deployment.master.shutdown(TEST_TIMEOUT).await;
}

#[tokio::test]
async fn who_comes_to_the_local_endpoint_is_no_stranger() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    // The first request of its session.
    let most = AdmissionLimits::default().max_message;
    let order = operator.order(OperatorRequest::Publish(PublishRequest::new(
        RequestId::random().unwrap(),
        Target::glob("nobody"),
        "test.ping",
        "u".repeat(2 * most),
    )));
    // Whatever it says to that.
    order.await;
    deployment.master.shutdown(TEST_TIMEOUT).await;
}
