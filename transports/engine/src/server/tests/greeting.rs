//! Peers that are no clients, or that there is no room for.

use std::io::ErrorKind;
use std::time::Duration;

use saline_protocol::transport::{Clock, Limits, Metric, Source};

use super::played::{Arrival, Breaking, ROOM, Serving};
use super::soon;
use crate::wire::{Frame, Greeting};

const SECOND: Duration = Duration::from_secs(1);

/// Whether an operator was told of a refused peer within the last second.
fn is_told(serving: &Serving) -> bool {
    serving.server.core.refusals.turn(Clock.now()).is_none()
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_greet_is_counted_and_told_by_what_it_says() {
    let mut other = Greeting::of_client(&Limits::default());
    (other.versions.lowest, other.versions.highest) = (7, 8);
    for (said, refused, is_for_operators) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], 1, false),
        (&[0x16, 3, 1, 0, 9, 0, 0, 0], 1, true),
        (&other.encode(), 1, true),
    ] {
        let serving = Serving::new(Limits::default());
        let mut peer = serving.stranger(Source::Process, ROOM).await;
        peer.send(said).await;
        soon(peer.hears_the_end()).await;
        assert_eq!(serving.server.count(Metric::PeersRefused), refused);
        assert_eq!(is_told(&serving), is_for_operators, "{said:?}");
        assert_eq!(serving.server.count(Metric::Connected), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_goes_without_a_word_is_not_counted() {
    let serving = Serving::new(Limits::default());
    drop(serving.stranger(Source::Process, ROOM).await);
    Clock.pause(SECOND).await;
    assert_eq!(serving.server.count(Metric::PeersRefused), 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_greet_in_time_is_cut() {
    let serving = Serving::new(Limits::default());
    let begin = Clock.now();
    serving
        .stranger(Source::Process, ROOM)
        .await
        .hears_the_end()
        .await;
    assert_eq!((Clock.now() - begin).as_secs(), 5);
    assert_eq!(serving.server.count(Metric::PeersRefused), 1);
    assert!(!is_told(&serving));
}

#[tokio::test(start_paused = true)]
async fn a_peer_is_refused_by_the_handshake_below_or_has_left() {
    for (kind, refused) in [(ErrorKind::InvalidData, 1), (ErrorKind::ConnectionReset, 0)] {
        let serving = Serving::new(Limits::default());
        let mut arrival = Arrival::new(Source::Process, tokio::io::empty(), tokio::io::sink());
        arrival.established = Err(kind.into());
        serving.bring(Ok(arrival)).await;
        Clock.pause(SECOND / 2).await;
        assert_eq!(serving.server.count(Metric::PeersRefused), refused);
        assert_eq!(is_told(&serving), refused == 1);

        let serving = Serving::new(Limits::default());
        let arrival = Arrival::new(Source::Process, Breaking(kind), tokio::io::sink());
        serving.bring(Ok(arrival)).await;
        Clock.pause(SECOND / 2).await;
        assert_eq!(serving.server.count(Metric::PeersRefused), refused);
        assert_eq!(is_told(&serving), refused == 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_for_which_there_is_no_room_is_told() {
    let mut limits = Limits::default();
    limits.connections = 1;
    let greeting = Greeting::of_client(&limits);
    let mut serving = Serving::new(limits);
    let mut first = serving.client().await;
    let mut second = serving.stranger(Source::Process, ROOM).await;
    second.send(&greeting.encode()).await;
    assert_eq!(soon(second.hears()).await, Some(Frame::Full));
    assert_eq!(soon(second.hears()).await, None);
    assert_eq!(serving.server.count(Metric::Connected), 1);
    assert_eq!(serving.server.count(Metric::PeersRefused), 1);
    assert!(is_told(&serving), "an operator can raise the limit");
    assert_eq!(serving.is_read(&mut first).await.connection, 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_of_another_version_is_answered_and_takes_no_place() {
    let serving = Serving::new(Limits::default());
    let mut other = Greeting::of_client(&Limits::default());
    (other.versions.lowest, other.versions.highest) = (7, 8);
    let mut peer = serving.stranger(Source::Process, ROOM).await;
    soon(peer.greet(other)).await;
    assert_eq!(soon(peer.hears()).await, None);
    assert!(serving.server.core.hub().is_empty());
    assert_eq!(serving.server.count(Metric::Disconnected), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_take_the_greeting_keeps_no_place() {
    let serving = Serving::new(Limits::default());
    let mut peer = serving.stranger(Source::Process, 10).await;
    let greeting = Greeting::of_client(&Limits::default());
    peer.send(&greeting.encode()).await;
    Clock.pause(SECOND).await;
    assert!(!serving.server.core.hub().is_empty());
    Clock.pause(5 * SECOND).await;
    assert!(serving.server.core.hub().is_empty());
    assert_eq!(serving.server.count(Metric::PeersRefused), 0);
}

#[tokio::test(start_paused = true)]
async fn clients_that_have_greeted_are_no_longer_counted_among_those_that_have_not() {
    let mut limits = Limits::default();
    // A quarter of them for those that have not greeted.
    limits.descriptors = Some(4);
    let serving = Serving::new(limits);
    let _clients = [serving.client().await, serving.client().await];
    let _waiting = serving.stranger(Source::User(1), ROOM).await;
    let arrival = Arrival::new(Source::User(1), tokio::io::empty(), tokio::io::sink());
    let is_refused = std::sync::Arc::clone(&arrival.is_refused);
    serving.bring(Ok(arrival)).await;
    Clock.pause(SECOND).await;
    assert!(is_refused.load(std::sync::atomic::Ordering::Relaxed));
    assert_eq!(serving.server.count(Metric::PeersRefused), 1);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_has_not_greeted_makes_room_for_another_source() {
    let mut limits = Limits::default();
    limits.descriptors = Some(8);
    let serving = Serving::new(limits);
    let mut waiting = serving.stranger(Source::User(1), ROOM).await;
    let _newer = serving.stranger(Source::User(1), ROOM).await;
    let _other = serving.stranger(Source::User(2), ROOM).await;
    soon(waiting.hears_the_end()).await;
    assert_eq!(serving.server.count(Metric::PeersRefused), 1);
    assert!(!is_told(&serving));
}
