//! Connections from several addresses: no source keeps the others out. A file of its own, because it needs
//! thousands of descriptors.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "integration/support/mod.rs"]
#[allow(dead_code, reason = "the rest is used in `integration`")]
mod support;

use std::net::SocketAddr;

use rustix::process::{Resource, getrlimit, setrlimit};
use saline_protocol::transport::{AdmissionLimits, Limits};
use support::{
    FULL, GREETING, REPLY, Raw, SOON, TestServer, eventually, limits, loopback, request,
};
use tokio::net::TcpSocket;

/// The connections that a server lets be in their handshake at once.
const MAX_UNGREETED: usize = 1024;

/// Connects from 127.0.0.`source`.
async fn come(server: &TestServer, source: u8) -> Raw {
    let socket = TcpSocket::new_v4().unwrap();
    let from = SocketAddr::from(([127, 0, 0, source], 0));
    socket.bind(from).unwrap();
    Raw(socket.connect(server.address()).await.unwrap())
}

/// Limits under which nobody is cut for want of time.
fn patient() -> Limits {
    let mut limits = limits();
    limits.handshake_timeout = 3 * SOON;
    limits.ping_interval = SOON;
    limits
}

#[tokio::test]
async fn silent_connections_of_one_source_keep_nobody_else_out() {
    let mut descriptors = getrlimit(Resource::Nofile);
    descriptors.current = descriptors.maximum;
    setrlimit(Resource::Nofile, descriptors).unwrap();
    let server = TestServer::with(loopback(0), patient()).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..MAX_UNGREETED {
        silent.push(come(&server, 2).await);
    }
    // There is no place for one more of this source: it waits for what it holds itself.
    come(&server, 2).await.is_cut().await;
    assert_eq!(server.refused(), 1);
    // For others there is, and each costs the source that has most its oldest.
    let mut others = Vec::new();
    for number in 0..100 {
        let mut other = come(&server, 3 + number % 5).await;
        other.greet().await;
        others.push(other);
        silent.remove(0).is_cut().await;
        // It has greeted, so its place is free again: it is taken by the greedy one.
        silent.push(come(&server, 2).await);
    }
    assert_eq!(server.refused(), 101);
    // Those that were first after them are there still, and may greet.
    silent[0].greet().await;
}

#[tokio::test]
async fn silent_connections_of_two_sources_share_the_places() {
    let mut descriptors = getrlimit(Resource::Nofile);
    descriptors.current = descriptors.maximum;
    setrlimit(Resource::Nofile, descriptors).unwrap();
    let server = TestServer::with(loopback(0), patient()).await.unwrap();
    let mut first = Vec::new();
    for _ in 0..MAX_UNGREETED {
        first.push(come(&server, 2).await);
    }
    let mut second = Vec::new();
    for _ in 0..MAX_UNGREETED {
        second.push(come(&server, 3).await);
    }
    // Half of the first were cut, and half of the second were refused.
    let count = u64::try_from(MAX_UNGREETED).unwrap();
    eventually("half of both", || server.refused() == count).await;
    first.last_mut().unwrap().greet().await;
    second[0].greet().await;
    first[0].is_cut().await;
    second.last_mut().unwrap().is_cut().await;
}

/// Connections that have greeted, and are not admitted.
#[tokio::test]
async fn connections_without_a_session_keep_no_other_source_out() {
    let mut limits = patient();
    limits.connections = 8;
    let mut admission = AdmissionLimits::default();
    admission.time = 3 * SOON;
    limits.admission = Some(admission);
    let mut server = TestServer::with(loopback(0), limits).await.unwrap();
    let mut known = come(&server, 2).await;
    known.greet().await;
    known.say(&request(1, b"known")).await;
    let asked = server.next().await;
    assert!(server.server.control.admitted(asked.peer));
    asked.reply.send("yes".into()).unwrap();
    assert_eq!(known.hear_more().await.unwrap().0, REPLY);
    let mut strangers = Vec::new();
    for _ in 0..7 {
        let mut stranger = come(&server, 2).await;
        stranger.greet().await;
        strangers.push(stranger);
    }
    // One more of the same source finds no place.
    let mut more = come(&server, 2).await;
    more.say(&support::greeting()).await;
    assert_eq!(more.hear_more().await.unwrap().0, FULL);
    let mut others = Vec::new();
    for _ in 0..3 {
        let mut other = come(&server, 3).await;
        other.greet().await;
        others.push(other);
        strangers.remove(0).is_cut().await;
    }
    // They are as many now as those that are left, and nobody gives way any more.
    let mut more = come(&server, 3).await;
    more.say(&support::greeting()).await;
    assert_eq!(more.hear_more().await.unwrap().0, FULL);
    assert_eq!(server.refused(), 5);
    // Whoever has a session is never cut for others, though it is the oldest of that source.
    known.say(&request(2, b"still here")).await;
    server.next().await.reply.send("yes".into()).unwrap();
    assert_eq!(known.hear_more().await.unwrap().0, REPLY);
    // A place that is given back is free for anybody.
    drop(others.pop());
    let gone = || server.context.tracker.len();
    let before = gone();
    eventually("one has gone", || gone() < before).await;
    let mut more = come(&server, 2).await;
    more.say(&support::greeting()).await;
    assert_eq!(more.hear_more().await.unwrap().0, GREETING);
}
