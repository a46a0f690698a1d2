//! Peers before and after their admission: a server holds and sends less for them before it.

use std::time::Duration;

use saline_protocol::transport::{
    AdmissionLimits, Clock, Departure, Departures, Limits, Metric, Peer, ServerControl, Source,
};

use super::played::{Serving, ask, reply, subscribe};
use super::{Bare, soon};
use crate::lock;
use crate::wire::{Frame, FrameKind};

const SECOND: Duration = Duration::from_secs(1);

/// Limits for strangers, and no pings.
fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.ping_interval = 1000 * SECOND;
    let mut admission = AdmissionLimits::default();
    admission.subscriptions = 1;
    admission.max_message = 100;
    limits.admission = Some(admission);
    limits
}

#[tokio::test(start_paused = true)]
async fn a_stranger_is_cut_after_its_time_and_its_departure_is_not_told() {
    let mut serving = Serving::new(limits());
    let begin = Clock.now();
    let mut peer = serving.client().await;
    subscribe(&mut peer, 1, &["t"]).await;
    assert_eq!(soon(peer.hears()).await, Some(Frame::Subscribed(1)));
    subscribe(&mut peer, 2, &["u"]).await;
    assert_eq!(
        soon(peer.hears()).await,
        Some(Frame::SubscriptionRefused(2))
    );
    peer.hears_the_end().await;
    assert_eq!((Clock.now() - begin).as_secs(), 10);
    assert_eq!(serving.server.count(Metric::PeersRefused), 1);
    let told = Clock.deadline(Clock.after(SECOND), serving.server.departed.next());
    assert!(told.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn who_is_admitted_is_told_once_and_may_do_everything() {
    let mut serving = Serving::new(limits());
    let mut peer = serving.client().await;
    // Part of a message that a stranger may send.
    let part = [
        &crate::wire::frame::header(FrameKind::Request, 90)[..],
        &[0; 50],
    ]
    .concat();
    peer.send(&part).await;
    Clock.pause(SECOND).await;
    let held = &serving.server.core.partial_bytes;
    assert_ne!(held.load(std::sync::atomic::Ordering::Relaxed), 0);
    let who = Peer::new(1, Source::Process);
    assert!(serving.control.admitted(who));
    assert_eq!(soon(peer.hears()).await, Some(Frame::Admitted));
    assert!(serving.control.admitted(who));
    peer.send(&[0; 40]).await;
    drop(serving.request().await);
    assert_eq!(soon(peer.hears()).await, Some(Frame::NoReply(0)));
    let held = &serving.server.core.partial_bytes;
    assert_eq!(held.load(std::sync::atomic::Ordering::Relaxed), 0);

    subscribe(&mut peer, 1, &["t", "u"]).await;
    assert_eq!(soon(peer.hears()).await, Some(Frame::Subscribed(1)));
    ask(&mut peer, 2, &[0; 1000]).await;
    assert_eq!(serving.request().await.payload.len(), 1000);
    assert_eq!(soon(peer.hears()).await, Some(Frame::NoReply(2)));
    Clock.pause(20 * SECOND).await;
    assert_eq!(serving.is_read(&mut peer).await, who);

    assert!(!serving.control.admitted(Peer::new(7, Source::Process)));
    assert!(serving.control.disconnect(who));
    assert!(!serving.control.disconnect(who));
    soon(peer.hears_the_end()).await;
    let told = soon(serving.server.departed.next()).await;
    assert_eq!(told, Some(Departure::Gone(who)));
    assert_eq!(serving.server.count(Metric::PeersRefused), 0);
}

#[tokio::test(start_paused = true)]
async fn where_nobody_needs_to_be_admitted_nobody_is_told() {
    let mut serving = Serving::new(Limits::default());
    let mut peer = serving.client().await;
    assert!(serving.control.admitted(Peer::new(1, Source::Process)));
    ask(&mut peer, 1, b"").await;
    serving.request().await.reply.send("hello".into()).unwrap();
    assert_eq!(soon(peer.hears()).await, Some(reply(1, b"hello")));
}

#[tokio::test(start_paused = true)]
async fn when_the_server_is_full_the_oldest_stranger_of_the_greediest_source_makes_room() {
    let mut limits = limits();
    limits.connections = 2;
    let server = Bare::new(limits);
    let [oldest, newest] = [1, 2].map(|number| server.connection(number, Source::User(1)));
    assert!(server.core.add(&oldest) && server.core.add(&newest));
    let other = server.connection(3, Source::User(2));
    assert!(server.core.add(&other));
    assert!(oldest.is_closed() && !newest.is_closed());
    assert_eq!(server.count(Metric::PeersRefused), 1);
    let refused = server.connection(4, Source::User(2));
    assert!(!server.core.add(&refused));
    assert!(!newest.is_closed() && !other.is_closed());
    assert_eq!(lock(&server.core.unadmitted).len(), 2);
    assert!(server.core.hub().get(4).is_none());
}

#[tokio::test(start_paused = true)]
async fn connections_are_no_strangers_where_nobody_is_admitted() {
    let server = Bare::new(Limits::default());
    server.connect(1);
    assert!(lock(&server.core.unadmitted).is_empty());
}
