//! Connections that stand: requests, subscriptions and silence.

use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{
    Clock, Limits, Metric, Peer, Publisher, Requests, ServerControl, Source,
};

use super::played::{Serving, ask, reply, subscribe};
use super::soon;
use crate::wire::testing::numbered;
use crate::wire::{BOUNDARY, Frame, FrameKind, Greeting};

const SECOND: Duration = Duration::from_secs(1);

fn published(payload: &'static [u8]) -> Frame {
    Frame::Publication {
        topic: "t".parse().unwrap(),
        payload: Bytes::from_static(payload),
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_answered_each_by_its_number() {
    let mut serving = Serving::new(Limits::default());
    let mut peer = serving.client().await;
    let together = [7_u64, 8, 9].map(|id| numbered(FrameKind::Request, id, &[id as u8]));
    peer.send(&together.concat()).await;
    let mut requests = Vec::new();
    for id in [7, 8, 9] {
        let request = serving.request().await;
        assert_eq!(request.payload[..], [id]);
        assert_eq!(request.peer.connection, 1);
        requests.push(request);
    }
    let third = requests.pop().unwrap();
    let second = requests.pop().unwrap();
    second.reply.send(Bytes::from_static(b"two")).unwrap();
    drop(requests);
    third.reply.send(Bytes::from_static(b"three")).unwrap();
    assert_eq!(soon(peer.hears()).await, Some(reply(8, b"two")));
    assert_eq!(soon(peer.hears()).await, Some(Frame::NoReply(7)));
    assert_eq!(soon(peer.hears()).await, Some(reply(9, b"three")));
    assert_eq!(serving.server.count(Metric::Connected), 1);
    drop(peer);
    Clock.pause(SECOND).await;
    assert!(serving.server.core.hub().is_empty());
    assert_eq!(serving.server.count(Metric::Disconnected), 1);
    assert_eq!(serving.server.count(Metric::PeersRefused), 0);
}

#[tokio::test(start_paused = true)]
async fn connections_take_turns_when_there_are_few_permits_and_give_all_of_them_back() {
    const PERMITS: usize = 3;
    let mut limits = Limits::default();
    limits.requests_unanswered = PERMITS;
    let mut serving = Serving::new(limits);
    let (mut first, mut second) = (serving.client().await, serving.client().await);
    let many: Vec<_> = (1..=8)
        .map(|id| numbered(FrameKind::Request, id, b""))
        .collect();
    first.send(&many.concat()).await;
    let mut open = Vec::new();
    for _ in 0..PERMITS {
        open.push(serving.request().await);
    }
    ask(&mut second, 1, b"second").await;
    let more = Clock.deadline(Clock.after(SECOND), serving.requests.next());
    assert!(more.await.is_err(), "no permit is left");
    let mut order = Vec::new();
    while let Some(request) = open.pop() {
        order.push(request.peer.connection);
        drop(request);
        if order.len() + open.len() < 9 {
            open.push(serving.request().await);
        }
    }
    assert_eq!(order.iter().filter(|number| **number == 1).count(), 8);
    assert_ne!(order.last(), Some(&2), "it had to wait for all others");
    for _ in 0..8 {
        assert!(matches!(soon(first.hears()).await, Some(Frame::NoReply(_))));
    }
    assert_eq!(soon(second.hears()).await, Some(Frame::NoReply(1)));
    let queue = &serving.server.core.requests;
    assert_eq!(queue.reserve(99, 2 * PERMITS, false).0, PERMITS);
}

#[tokio::test(start_paused = true)]
async fn a_connection_keeps_no_permits_for_requests_to_come() {
    let mut limits = Limits::default();
    limits.requests_unanswered = 10;
    let mut serving = Serving::new(limits);
    let mut peer = serving.client().await;
    ask(&mut peer, 1, b"").await;
    let _open = serving.request().await;
    Clock.pause(SECOND).await;
    let queue = &serving.server.core.requests;
    assert_eq!(queue.reserve(99, 20, false).0, 9);
}

#[tokio::test(start_paused = true)]
async fn a_peer_is_not_taken_for_silent_while_it_waits_for_a_permit() {
    let mut limits = Limits::default();
    limits.requests_unanswered = 1;
    let mut serving = Serving::new(limits);
    let mut peer = serving.client().await;
    ask(&mut peer, 1, b"").await;
    let first = serving.request().await;
    ask(&mut peer, 2, b"").await;
    Clock.pause(100 * SECOND).await;
    drop(first);
    drop(serving.request().await);
    while soon(peer.hears()).await != Some(Frame::NoReply(2)) {}
    // The time of a silent peer begins now.
    Clock.pause(9 * SECOND).await;
    assert!(!serving.server.core.hub().is_empty());
}

#[tokio::test(start_paused = true)]
async fn publications_go_to_those_who_are_subscribed() {
    let mut limits = Limits::default();
    limits.subscriptions_per_connection = 2;
    let mut serving = Serving::new(limits);
    let (mut first, mut second) = (serving.client().await, serving.client().await);
    let topic = "t".parse().unwrap();
    assert_eq!(serving.publisher.subscriptions(&topic), 0);
    subscribe(&mut first, 1, &["t", "u"]).await;
    subscribe(&mut first, 2, &["v"]).await;
    subscribe(&mut second, 5, &["t"]).await;
    assert_eq!(soon(first.hears()).await, Some(Frame::Subscribed(1)));
    assert_eq!(
        soon(first.hears()).await,
        Some(Frame::SubscriptionRefused(2))
    );
    assert_eq!(soon(second.hears()).await, Some(Frame::Subscribed(5)));
    assert_eq!(serving.publisher.subscriptions(&topic), 2);
    let payload = Bytes::from_static(b"one");
    serving.publisher.publish(&topic, payload).await.unwrap();
    assert_eq!(soon(first.hears()).await, Some(published(b"one")));
    assert_eq!(soon(second.hears()).await, Some(published(b"one")));
    first
        .say(FrameKind::Unsubscribe, &1_u64.to_le_bytes())
        .await;
    first.say(FrameKind::Ping, &[]).await;
    serving.is_read(&mut first).await;
    assert_eq!(serving.publisher.subscriptions(&topic), 1);
}

#[tokio::test(start_paused = true)]
async fn both_ends_speak_now_and_then_and_a_silent_peer_is_cut() {
    let serving = Serving::new(Limits::default());
    let mut peer = serving.client().await;
    let begin = Clock.now();
    // Three quarters of the interval, and a tick less at most.
    for number in 1..=10 {
        assert_eq!(peer.hears().await, Some(Frame::Ping));
        let took = (Clock.now() - begin).as_millis();
        assert!(
            (number * 3500..=number * 3750).contains(&took),
            "{number}: {took}"
        );
        peer.say(FrameKind::Ping, &[]).await;
    }
    let begin = Clock.now();
    peer.hears_the_end().await;
    let took = (Clock.now() - begin).as_millis();
    assert!((9000..=10_000).contains(&took), "{took}");
    assert_eq!(serving.server.count(Metric::Disconnected), 1);
    assert_eq!(serving.server.count(Metric::PeersRefused), 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_nothing_is_cut() {
    let mut serving = Serving::new(Limits::default());
    let mut peer = serving.stranger(Source::Process, 100).await;
    soon(peer.greet(Greeting::of_client(&Limits::default()))).await;
    ask(&mut peer, 1, b"").await;
    let request = serving.request().await;
    request.reply.send(vec![0; 1000].into()).unwrap();
    for _ in 0..9 {
        Clock.pause(SECOND).await;
        peer.say(FrameKind::Ping, &[]).await;
    }
    assert!(!serving.server.core.hub().is_empty());
    Clock.pause(2 * SECOND).await;
    assert!(serving.server.core.hub().is_empty());
}

#[tokio::test(start_paused = true)]
async fn other_tasks_have_their_turns_between_large_writes() {
    let mut serving = Serving::new(Limits::default());
    let mut peer = serving.stranger(Source::Process, 100 * BOUNDARY).await;
    soon(peer.greet(Greeting::of_client(&Limits::default()))).await;
    let mut open = Vec::new();
    for id in 0..10 {
        ask(&mut peer, id, b"").await;
        open.push(serving.request().await);
    }
    for request in open {
        request.reply.send(vec![0; BOUNDARY].into()).unwrap();
    }
    let mut before = 0;
    for _ in 0..100 {
        tokio::task::yield_now().await;
        let now = peer.arrived();
        assert!(now - before < 2 * BOUNDARY, "{} at once", now - before);
        before = now;
    }
    assert!(before >= 10 * BOUNDARY, "{before}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_breaks_the_protocol_is_cut_and_counted() {
    let mut serving = Serving::new(Limits::default());
    let mut peer = serving.client().await;
    serving.is_read(&mut peer).await;
    peer.send(b"not a frame at all").await;
    soon(peer.hears_the_end()).await;
    assert_eq!(serving.server.count(Metric::PeersRefused), 1);
    assert!(!serving.control.disconnect(Peer::new(1, Source::Process)));
}
