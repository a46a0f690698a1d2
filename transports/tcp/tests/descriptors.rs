//! A process that runs out of descriptors. A file of its own, because the limit is the process's.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod stage;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stage::{Stage, eventually};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_server_out_of_descriptors_serves_again_when_there_are_some() {
    let mut stage = Stage::new().await;
    let steady = stage.client().await;
    stage.works(&*steady).await;
    let before = getrlimit(Resource::Nofile);
    let few = Rlimit {
        current: Some(64),
        ..before
    };
    setrlimit(Resource::Nofile, few).unwrap();
    // Connecting takes a descriptor too, so those that are accepted take the last.
    let mut open = Vec::new();
    while let Ok(stream) = TcpStream::connect(stage.address()).await {
        open.push(stream);
        tokio::task::yield_now().await;
    }
    assert!(open.len() > 10, "only {} connections", open.len());
    for _ in 0..20 {
        stage.works(&*steady).await;
    }
    drop(open);
    setrlimit(Resource::Nofile, before).unwrap();
    let fresh = stage.client().await;
    stage.works(&*fresh).await;
    eventually("the others are gone", || stage.context.tracker.len() < 10).await;
}
