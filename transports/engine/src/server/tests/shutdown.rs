//! The end of a server, with connections that go on or do not.

use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{
    Clock, Error, ErrorKind, Instant, Limits, Requests, ServerControl,
};

use super::played::{Serving, ask, reply};
use super::soon;
use crate::lock;
use crate::wire::Frame;

const SECOND: Duration = Duration::from_secs(1);

/// Shuts down with so many seconds. Returns what comes of it, after how long the connections had ended, and how long it took.
async fn shut_down(serving: &Serving, seconds: u32) -> (Result<(), Error>, Duration, Duration) {
    let begin = Clock.now();
    let ended = serving.control.shutdown(seconds * SECOND).await;
    let at = |at: Instant| at - begin;
    let connections = lock(&serving.ended).map(at).unwrap_or(Duration::MAX);
    (ended, connections, at(Clock.now()))
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_before_is_answered_and_nothing_after() {
    let mut serving = Serving::new(Limits::default());
    let mut peer = serving.client().await;
    ask(&mut peer, 1, b"").await;
    let request = serving.request().await;
    let playing = async {
        Clock.pause(SECOND).await;
        ask(&mut peer, 2, b"too late").await;
        Clock.pause(SECOND).await;
        request.reply.send(Bytes::from_static(b"in time")).unwrap();
        assert_eq!(soon(peer.hears()).await, Some(reply(1, b"in time")));
        assert_eq!(soon(peer.hears()).await, None);
        drop(peer);
    };
    let ((ended, connections, took), ()) = tokio::join!(shut_down(&serving, 10), playing);
    ended.unwrap();
    assert_eq!((connections.as_secs(), took.as_secs()), (2, 2));
    assert!(soon(serving.requests.next()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_answered_is_cut_at_the_deadline() {
    let mut serving = Serving::new(Limits::default());
    let mut peer = serving.client().await;
    ask(&mut peer, 1, b"").await;
    let _request = serving.request().await;
    let playing = peer.hears_the_end();
    let ((ended, _, took), ()) = tokio::join!(shut_down(&serving, 3), playing);
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(took.as_secs(), 3);
    assert!(serving.server.core.lifetime.context.tracker.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_close_has_the_time_of_a_silent_one() {
    let mut serving = Serving::new(Limits::default());
    let mut peer = serving.client().await;
    ask(&mut peer, 1, b"").await;
    drop(serving.request().await);
    let playing = async {
        assert_eq!(soon(peer.hears()).await, Some(Frame::NoReply(1)));
        assert_eq!(soon(peer.hears()).await, None);
        peer
    };
    let ((ended, _, took), _peer) = tokio::join!(shut_down(&serving, 100), playing);
    ended.unwrap();
    assert_eq!(took.as_millis(), 9750);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_take_its_answer_is_cut_at_the_deadline() {
    let mut serving = Serving::new(Limits::default());
    let mut peer = serving.stranger(super::Source::Process, 100).await;
    soon(peer.greet(crate::wire::Greeting::of_client(&Limits::default()))).await;
    ask(&mut peer, 1, b"").await;
    let request = serving.request().await;
    request.reply.send(vec![0; 1000].into()).unwrap();
    let (ended, _, took) = shut_down(&serving, 3).await;
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(took.as_secs(), 3);
}

/// Its tasks would end it: this one has none.
#[tokio::test(start_paused = true)]
async fn a_listener_closes_half_a_second_after_the_deadline_at_the_latest() {
    let serving = Serving::new(Limits::default());
    let connection = serving.server.connect(1);
    let (ended, connections, took) = shut_down(&serving, 3).await;
    ended.unwrap();
    assert_eq!(connections.as_millis(), 3500);
    assert_eq!(took.as_millis(), 3500);
    assert!(connection.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_has_not_greeted_does_not_delay_the_end() {
    let serving = Serving::new(Limits::default());
    let mut peer = serving.stranger(super::Source::Process, 100).await;
    Clock.pause(SECOND).await;
    let (ended, _, took) = shut_down(&serving, 3).await;
    ended.unwrap();
    assert_eq!(took, Duration::ZERO);
    soon(peer.hears_the_end()).await;
}
