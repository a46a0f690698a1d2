//! Subscriptions over a connection that stands, is not admitted, or is lost.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{
    Clock, Context, Delivery, ErrorKind, Limits, Lost, Metric, Result, Subscriber,
};

use super::super::ClientCore;
use super::super::requests::Requests;
use super::played::{Connected, ROOM, before_admission};
use crate::state::ClientSubscriptions;
use crate::wire::testing::{PlayedPeer, filters, soon};
use crate::wire::{self, BOUNDARY, Frame, FrameKind, SendBuffer};
use crate::{Lifetime, delivery_queue};

const SECOND: Duration = Duration::from_secs(1);

/// Subscribes to these topics; the server confirms.
async fn subscribe(
    connected: &Connected,
    server: &mut PlayedPeer,
    topics: &[&str],
) -> Box<dyn Subscriber> {
    let deadline = Clock.after(10 * SECOND);
    let subscribing = connected.client.subscribe(None, filters(topics), deadline);
    let confirming = async {
        let Some(Frame::Subscribe { id, filters: asked }) = server.hears().await else {
            panic!("no subscription");
        };
        assert_eq!(asked, filters(topics));
        server.say(FrameKind::Subscribed, &id.to_le_bytes()).await;
    };
    let (subscriber, ()) = soon(async { tokio::join!(subscribing, confirming) }).await;
    subscriber.unwrap()
}

/// Publishes on the topic `t`.
async fn publish(server: &mut PlayedPeer, payload: &[u8]) {
    let body = [&b"\x01\0t"[..], payload].concat();
    server.say(FrameKind::Publication, &body).await;
}

fn message(payload: &'static [u8]) -> Option<Delivery> {
    Some(Delivery::Message {
        topic: "t".parse().unwrap(),
        payload: Bytes::from_static(payload),
    })
}

fn kind(outcome: Result<Box<dyn Subscriber>>) -> ErrorKind {
    outcome.err().unwrap().kind()
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_has_what_is_published_and_what_was_lost_until_it_goes() {
    let (connected, mut server) = Connected::new(Limits::default(), ROOM).await;
    let mut subscriber = subscribe(&connected, &mut server, &["t", "u"]).await;
    publish(&mut server, b"one").await;
    assert_eq!(soon(subscriber.next()).await, message(b"one"));
    let lagged = [1_u64.to_le_bytes(), 3_u64.to_le_bytes()].concat();
    server.say(FrameKind::Lagged, &lagged).await;
    publish(&mut server, b"two").await;
    let mut batch = Vec::new();
    assert_eq!(soon(subscriber.next_batch(&mut batch, 1)).await, 1);
    assert_eq!(batch, [Delivery::Lagged(Lost::Messages(3))]);
    publish(&mut server, b"three").await;
    Clock.pause(SECOND).await;
    assert_eq!(soon(subscriber.next_batch(&mut batch, 9)).await, 2);
    assert_eq!(batch.last(), message(b"three").as_ref());
    server.say(FrameKind::Ping, &[]).await;
    drop(subscriber);
    loop {
        match soon(server.hears()).await {
            Some(Frame::Ping) => {}
            other => break assert_eq!(other, Some(Frame::Unsubscribe(1))),
        }
    }
    assert_eq!(connected.counters.get(Metric::Disconnected), 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_slow_subscriber_loses_is_counted() {
    let mut limits = Limits::default();
    limits.subscriber_queue_messages = 1;
    let (connected, mut server) = Connected::new(limits, ROOM).await;
    let _subscriber = subscribe(&connected, &mut server, &["t"]).await;
    publish(&mut server, b"one").await;
    publish(&mut server, b"two").await;
    publish(&mut server, b"three").await;
    Clock.pause(SECOND).await;
    assert_eq!(connected.counters.get(Metric::Lost), 2);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_the_server_does_not_take_ends_alone() {
    let (connected, mut server) = Connected::new(Limits::default(), ROOM).await;
    let mut stands = subscribe(&connected, &mut server, &["t"]).await;
    let deadline = Clock.after(10 * SECOND);
    let asking = connected.client.subscribe(None, filters(&["u"]), deadline);
    let refusing = async {
        assert!(matches!(
            server.hears().await,
            Some(Frame::Subscribe { id: 2, .. })
        ));
        let id = 2_u64.to_le_bytes();
        server.say(FrameKind::SubscriptionRefused, &id).await;
    };
    let (refused, ()) = soon(async { tokio::join!(asking, refusing) }).await;
    assert_eq!(kind(refused), ErrorKind::Config);
    publish(&mut server, b"one").await;
    assert_eq!(soon(stands.next()).await, message(b"one"));
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_not_confirmed_in_time_is_withdrawn() {
    let (connected, mut server) = Connected::new(Limits::default(), ROOM).await;
    let deadline = Clock.after(SECOND);
    let late = connected.client.subscribe(None, filters(&["t"]), deadline);
    assert_eq!(kind(late.await), ErrorKind::Unreachable);
    assert!(matches!(
        soon(server.hears()).await,
        Some(Frame::Subscribe { id: 1, .. })
    ));
    assert_eq!(soon(server.hears()).await, Some(Frame::Unsubscribe(1)));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_subscribed_to_is_refused_at_once() {
    let mut limits = Limits::default();
    limits.subscriptions_per_connection = 1;
    let (connected, _server) = Connected::new(limits, ROOM).await;
    let deadline = Clock.after(10 * SECOND);
    let client = &connected.client;
    let too_many = client.subscribe(None, filters(&["t", "u"]), deadline);
    assert_eq!(kind(soon(too_many).await), ErrorKind::Config);
    let place = super::endpoint();
    let elsewhere = client.subscribe(Some(&place), filters(&["t"]), deadline);
    assert_eq!(kind(soon(elsewhere).await), ErrorKind::Config);
    client.shutdown(SECOND).await.unwrap();
    let closed = client.subscribe(None, filters(&["t"]), deadline);
    assert_eq!(kind(soon(closed).await), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn more_topics_than_a_stranger_may_have_wait_until_the_client_is_admitted() {
    let limits = before_admission(|admission| admission.subscriptions = 1);
    let (connected, mut server) = Connected::new(limits, ROOM).await;
    let _first = subscribe(&connected, &mut server, &["t"]).await;
    let deadline = Clock.after(10 * SECOND);
    let second = connected.client.subscribe(None, filters(&["u"]), deadline);
    let admitting = async {
        assert!(
            Clock
                .deadline(Clock.after(SECOND), server.hears())
                .await
                .is_err()
        );
        server.say(FrameKind::Admitted, &[]).await;
        let heard = soon(server.hears()).await;
        assert!(matches!(heard, Some(Frame::Subscribe { id: 2, .. })));
        server
            .say(FrameKind::Subscribed, &2_u64.to_le_bytes())
            .await;
    };
    let (second, ()) = tokio::join!(second, admitting);
    second.unwrap();
}

#[tokio::test(start_paused = true)]
async fn subscriptions_are_announced_up_to_the_boundary_of_a_write() {
    for (before, announced) in [(BOUNDARY - 1, 1), (BOUNDARY, 0), (BOUNDARY + 1, 0), (0, 2)] {
        let core = ClientCore {
            requests: Requests::default(),
            subscriptions: Mutex::new(ClientSubscriptions::new(2)),
            certificate: Mutex::default(),
            place: Mutex::default(),
            lifetime: Lifetime::new(Context::default(), SECOND),
        };
        core.subscriptions().connected(2);
        for topic in ["t", "u"] {
            let (queue, _) = delivery_queue(&Limits::default());
            let (waiting, _) = tokio::sync::oneshot::channel();
            let added = core.subscriptions().add(filters(&[topic]), queue, waiting);
            assert!(added.is_ok());
        }
        let mut buffer = SendBuffer::default();
        buffer.copy(&vec![0; before]);
        core.announce_subscriptions(&mut buffer);
        let one = wire::frame::subscribe(1, &filters(&["t"])).len();
        assert_eq!(buffer.len(), before + announced * one);
    }
}

#[tokio::test(start_paused = true)]
async fn subscriptions_survive_a_lost_connection_and_end_with_the_client() {
    let (connected, mut server) = Connected::new(Limits::default(), ROOM).await;
    let mut subscriber = subscribe(&connected, &mut server, &["t"]).await;
    let mut server = connected.reconnect(server).await;
    assert_eq!(soon(subscriber.next()).await, Some(Delivery::Disconnected));
    assert!(matches!(
        soon(server.hears()).await,
        Some(Frame::Subscribe { id: 1, .. })
    ));
    server
        .say(FrameKind::Subscribed, &1_u64.to_le_bytes())
        .await;
    assert_eq!(soon(subscriber.next()).await, Some(Delivery::Connected));
    publish(&mut server, b"one").await;
    assert_eq!(soon(subscriber.next()).await, message(b"one"));
    soon(connected.client.shutdown(SECOND)).await.unwrap();
    assert_eq!(soon(subscriber.next()).await, None);
}
