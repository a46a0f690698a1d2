//! Requests over a connection that stands, is slow, or is lost.

use std::time::Duration;

use saline_protocol::transport::{Clock, Error, ErrorKind, Limits, Metric};

use super::played::{Asked, Connected, ROOM, before_admission, hears_request, reply};
use crate::wire::testing::{numbered, soon};
use crate::wire::{BOUNDARY, Frame, FrameKind};

const SECOND: Duration = Duration::from_secs(1);

/// Returns the error that has come of a request.
async fn failed(asked: Asked) -> ErrorKind {
    let outcome = soon(asked).await.unwrap();
    outcome.map_err(|error: Error| error.kind()).unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn each_request_has_the_outcome_of_its_number() {
    let (connected, mut server) = Connected::new(Limits::default(), ROOM).await;
    let first = connected.ask("one", 10 * SECOND);
    let one = hears_request(&mut server, b"one").await;
    let second = connected.ask("two", 10 * SECOND);
    let two = hears_request(&mut server, b"two").await;
    reply(&mut server, two, b"second").await;
    assert_eq!(soon(second).await.unwrap().unwrap()[..], *b"second");
    server.say(FrameKind::NoReply, &one.to_le_bytes()).await;
    assert_eq!(failed(first).await, ErrorKind::NoReply);
    let both = ["three", "four"].map(|payload| connected.ask(payload, 10 * SECOND));
    let three = hears_request(&mut server, b"three").await;
    let four = hears_request(&mut server, b"four").await;
    let replies = [three, four].map(|id| numbered(FrameKind::Reply, id, &id.to_le_bytes()));
    server.send(&replies.concat()).await;
    for (asked, id) in both.into_iter().zip([three, four]) {
        assert_eq!(soon(asked).await.unwrap().unwrap()[..], id.to_le_bytes());
    }
    assert_eq!(connected.counters.get(Metric::Disconnected), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_at_its_deadline_whether_it_was_sent_or_not() {
    let (connected, mut server) = Connected::new(Limits::default(), 100).await;
    let sent = connected.ask(vec![1; 1000], 2 * SECOND);
    Clock.pause(SECOND / 2).await;
    let waits = connected.ask("waits", SECOND);
    Clock.pause(SECOND).await;
    assert!(!sent.is_finished());
    assert_eq!(failed(waits).await, ErrorKind::Unreachable);
    Clock.pause(SECOND).await;
    assert_eq!(failed(sent).await, ErrorKind::TimedOut);
    // The client sends the rest of the request that it had begun to send, and nothing of the other one.
    hears_request(&mut server, &[1; 1000]).await;
    assert_eq!(server.hears().await, Some(Frame::Ping));
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_may_have_run_when_the_connection_is_lost_and_the_rest_waits() {
    let (connected, server) = Connected::new(Limits::default(), 100).await;
    let sent = connected.ask(vec![1; 1000], 100 * SECOND);
    Clock.pause(SECOND).await;
    let waits = connected.ask("waits", 100 * SECOND);
    Clock.pause(SECOND).await;
    let mut server = connected.reconnect(server).await;
    assert_eq!(failed(sent).await, ErrorKind::ConnectionLost);
    let id = hears_request(&mut server, b"waits").await;
    reply(&mut server, id, b"").await;
    soon(waits).await.unwrap().unwrap();
    assert_eq!(connected.counters.get(Metric::Disconnected), 1);
    assert_eq!(connected.counters.get(Metric::Connected), 2);
}

#[tokio::test(start_paused = true)]
async fn a_large_request_waits_until_the_server_has_admitted_the_client() {
    let limits = before_admission(|admission| admission.max_message = 10);
    let (connected, mut server) = Connected::new(limits, ROOM).await;
    let _large = connected.ask("more than ten bytes", 100 * SECOND);
    let small = connected.ask("small", 100 * SECOND);
    let id = hears_request(&mut server, b"small").await;
    reply(&mut server, id, b"").await;
    soon(small).await.unwrap().unwrap();
    assert!(
        Clock
            .deadline(Clock.after(SECOND), server.hears())
            .await
            .is_err()
    );
    server.say(FrameKind::Admitted, &[]).await;
    hears_request(&mut server, b"more than ten bytes").await;
}

#[tokio::test(start_paused = true)]
async fn both_ends_speak_now_and_then_and_a_silent_server_is_left() {
    let (connected, mut server) = Connected::new(Limits::default(), ROOM).await;
    let begin = Clock.now();
    for number in 1..=10 {
        assert_eq!(server.hears().await, Some(Frame::Ping));
        assert_eq!((Clock.now() - begin).as_millis(), number * 3750);
        server.say(FrameKind::Ping, &[]).await;
    }
    assert_eq!(connected.counters.get(Metric::Disconnected), 0);
    let begin = Clock.now();
    server.hears_the_end().await;
    assert_eq!((Clock.now() - begin).as_millis(), 9750);
    assert_eq!(connected.counters.get(Metric::Disconnected), 1);
    assert_eq!(connected.counters.get(Metric::PeersRefused), 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_client_that_is_shut_down() {
    let (connected, mut server) = Connected::new(Limits::default(), ROOM).await;
    let waits = connected.ask("waits", 100 * SECOND);
    hears_request(&mut server, b"waits").await;
    soon(connected.client.shutdown(SECOND)).await.unwrap();
    assert_eq!(failed(waits).await, ErrorKind::Closed);
    assert_eq!(
        failed(connected.ask("more", SECOND)).await,
        ErrorKind::Closed
    );
    assert_eq!(soon(server.hears()).await, None);
    assert!(connected.context.tracker.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_client_whose_tasks_were_cut() {
    let (connected, mut server) = Connected::new(Limits::default(), ROOM).await;
    let waits = connected.ask("waits", 100 * SECOND);
    hears_request(&mut server, b"waits").await;
    connected.context.cancel.cancel();
    soon(server.hears_the_end()).await;
    let client = std::sync::Arc::clone(&connected.client);
    let more = client.request("more".into(), Clock.after(100 * SECOND));
    assert_eq!(soon(more).await.unwrap_err().kind(), ErrorKind::Closed);
    drop(waits);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_dropped_leaves() {
    let (connected, mut server) = Connected::new(Limits::default(), ROOM).await;
    let context = connected.context.clone();
    drop(connected);
    soon(server.hears_the_end()).await;
    assert!(context.tracker.is_empty());
}

#[tokio::test(start_paused = true)]
async fn other_tasks_have_their_turns_between_large_writes() {
    let mut limits = Limits::default();
    limits.ping_interval = 1000 * SECOND;
    let (connected, mut server) = Connected::new(limits, 100 * BOUNDARY).await;
    let _asked: Vec<_> = (0..10)
        .map(|_| connected.ask(vec![0; BOUNDARY], 100 * SECOND))
        .collect();
    let mut before = 0;
    for _ in 0..100 {
        tokio::task::yield_now().await;
        let now = server.arrived();
        assert!(now - before < 2 * BOUNDARY, "{} at once", now - before);
        before = now;
    }
    assert!(before >= 10 * BOUNDARY, "{before}");
}
