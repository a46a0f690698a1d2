//! Requests on their way from connections to the handler.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{Clock, Limits, Request, Requests};
use tokio_util::sync::CancellationToken;

use super::{Bare, soon};
use crate::server::connection::Connection;
use crate::server::requests::{EngineRequests, InboundRequest};
use crate::state::{BATCH, Drained, Next};
use crate::wire::SendBuffer;

fn handler(server: &Bare) -> EngineRequests {
    let alive = Arc::new(CancellationToken::new().drop_guard());
    EngineRequests::new(Arc::clone(&server.core), alive)
}

/// Hands over a request as the reader of `connection` does.
fn ask(connection: &Arc<Connection>, id: u64, payload: &Bytes) {
    let queue = &connection.core.requests;
    assert_eq!(queue.reserve(connection.number(), 1, false).0, 1);
    connection.expect_answers(1);
    queue.push(&mut vec![InboundRequest::new(
        connection,
        id,
        payload.clone(),
    )]);
}

/// Returns whether there is something to write for `connection`.
fn is_answered(connection: &Connection) -> bool {
    let (mut buffer, mut drained) = (SendBuffer::default(), Drained::default());
    connection.drain(&mut buffer, &mut drained) == Next::Write
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_connection_that_is_over_are_passed_over() {
    let server = Bare::new(Limits::default());
    let mut requests = handler(&server);
    let (gone, stays) = (server.connect(1), server.connect(2));
    ask(&gone, 7, &Bytes::new());
    ask(&stays, 8, &Bytes::new());
    gone.close();
    let request = soon(requests.next()).await.unwrap();
    assert_eq!(request.peer.connection, 2);
}

#[tokio::test(start_paused = true)]
async fn readers_wait_while_too_many_bytes_wait_for_the_handler() {
    let server = Bare::new(Limits::default());
    let mut requests = handler(&server);
    let connection = server.connect(1);
    let large = Bytes::from(vec![0; 6 * 1024 * 1024]);
    for id in 1..=2 {
        ask(&connection, id, &large);
        assert!(!server.core.requests.room().await);
    }
    ask(&connection, 3, &large);
    let handling = async {
        Clock.pause(Duration::from_secs(1)).await;
        requests.next().await
    };
    let begin = Clock.now();
    let (has_waited, request) = tokio::join!(server.core.requests.room(), handling);
    assert!(has_waited && request.is_some());
    assert_eq!((Clock.now() - begin).as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_handler_every_request_is_answered_at_once() {
    let mut limits = Limits::default();
    limits.requests_unanswered = 3;
    let server = Bare::new(limits);
    let mut requests = handler(&server);
    let connection = server.connect(1);
    ask(&connection, 1, &Bytes::new());
    ask(&connection, 2, &Bytes::new());
    // The second one was taken together with it.
    drop(soon(requests.next()).await.unwrap());
    assert!(is_answered(&connection));
    ask(&connection, 3, &Bytes::new());
    assert!(!is_answered(&connection));
    drop(requests);
    assert!(is_answered(&connection));
    assert_eq!(server.core.requests.reserve(1, 4, false).0, 3);
    server.core.requests.release(3);
    ask(&connection, 4, &Bytes::new());
    assert!(is_answered(&connection));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_leaves_the_line_gives_its_turn_to_the_next_one() {
    let mut limits = Limits::default();
    limits.requests_unanswered = 1;
    let server = Bare::new(limits);
    let queue = &server.core.requests;
    assert_eq!(queue.reserve(7, 1, false), (1, None));
    for connection in [8, 9] {
        assert_eq!(queue.reserve(connection, 1, false), (0, None));
    }
    assert_eq!(queue.release(1), Some(8));
    assert_eq!(queue.reserve(10, 1, false), (0, None), "9 is before it");
    assert_eq!(queue.leave(8), Some(9));
    assert_eq!(queue.leave(9), Some(10));
    assert_eq!(queue.leave(10), None);
    assert_eq!(queue.reserve(7, 1, false), (1, None));
}

/// Takes what is there. None where there is nothing to take now.
fn take(requests: &mut EngineRequests, into: &mut Vec<Request>, most: usize) -> Option<usize> {
    let mut cx = Context::from_waker(Waker::noop());
    match pin!(requests.next_batch(into, most)).poll(&mut cx) {
        Poll::Ready(taken) => Some(taken),
        Poll::Pending => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_as_many_requests_as_are_asked_for_and_there() {
    let server = Bare::new(Limits::default());
    let mut requests = handler(&server);
    let connection = server.connect(1);
    (1..=5).for_each(|id| ask(&connection, id, &Bytes::new()));
    let mut batch = Vec::new();
    assert_eq!(take(&mut requests, &mut batch, 2), Some(2));
    assert_eq!(batch.len(), 2);
    assert_eq!(take(&mut requests, &mut batch, 2), Some(2));
    assert_eq!(take(&mut requests, &mut batch, 2), Some(1));
    assert_eq!(batch.len(), 5);
    assert_eq!(take(&mut requests, &mut batch, 2), None);
    server.core.requests.end();
    assert_eq!(take(&mut requests, &mut batch, 2), Some(0));
}

#[tokio::test(start_paused = true)]
async fn the_handler_waits_on_when_all_requests_are_those_of_a_connection_that_is_over() {
    let server = Bare::new(Limits::default());
    let mut requests = handler(&server);
    let connection = server.connect(1);
    ask(&connection, 1, &Bytes::new());
    connection.close();
    assert_eq!(take(&mut requests, &mut Vec::new(), 1), None);
}

#[tokio::test(start_paused = true)]
async fn other_tasks_have_their_turns_after_a_batch_and_only_then() {
    let server = Bare::new(Limits::default());
    let mut requests = handler(&server);
    let connection = server.connect(1);
    let mut batch = Vec::new();
    for id in 0..2 * BATCH as u64 {
        ask(&connection, id, &Bytes::new());
    }
    for _ in 0..2 {
        for _ in 0..BATCH {
            assert_eq!(take(&mut requests, &mut batch, 1), Some(1));
        }
        assert_eq!(take(&mut requests, &mut batch, 1), None);
    }
}
