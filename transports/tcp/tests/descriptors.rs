//! A process that runs out of descriptors. A file of its own, because the limit is the process's.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "integration/support/mod.rs"]
#[allow(dead_code, reason = "the rest is used in `integration`")]
mod support;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{TestServer, eventually};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_server_out_of_descriptors_serves_again_when_there_are_some() {
    let mut server = TestServer::new().await;
    let steady = server.client().await;
    server.works(&*steady).await;
    let before = getrlimit(Resource::Nofile);
    let few = Rlimit {
        current: Some(64),
        ..before
    };
    setrlimit(Resource::Nofile, few).unwrap();
    // Connecting takes a descriptor too, so those that are accepted take the last.
    let mut open = Vec::new();
    while let Ok(stream) = TcpStream::connect(server.address()).await {
        open.push(stream);
        tokio::task::yield_now().await;
    }
    assert!(open.len() > 10, "only {} connections", open.len());
    for _ in 0..20 {
        server.works(&*steady).await;
    }
    drop(open);
    setrlimit(Resource::Nofile, before).unwrap();
    let fresh = server.client().await;
    server.works(&*fresh).await;
    eventually("the others are gone", || server.context.tracker.len() < 10).await;
}
