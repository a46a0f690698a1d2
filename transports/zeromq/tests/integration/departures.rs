//! Peers that have gone: what the conformance suite does not reach.

use std::sync::Arc;
use std::time::Duration;

use crate::support::*;
use saline_protocol::transport::{Client, Clock, Departure, Peer, ServeAt};

/// Makes a request and admits the peer that it comes from.
async fn admit(host: &mut TestServer, client: &Arc<dyn Client>) -> Peer {
    let asking = {
        let client = Arc::clone(client);
        spawn(async move { ask(&client, "hello").await })
    };
    let request = soon(host.server.requests.next()).await.unwrap();
    assert!(host.server.control.admitted(request.peer));
    request.reply.send(request.payload).unwrap();
    soon(asking).await.unwrap().unwrap();
    request.peer
}

async fn departed(host: &mut TestServer) -> Option<Departure> {
    soon(host.server.departures.next()).await
}

#[tokio::test]
async fn local_peers_that_go_are_told_and_can_be_cut() {
    let folder = tempfile::tempdir().unwrap();
    let at = ServeAt {
        requests: local_path(folder.path().join("requests")),
        publications: Some(local_path(folder.path().join("publications"))),
    };
    let mut host = TestServer::with(transport(), at, limits()).await;
    let client = host.client().await;
    let peer = admit(&mut host, &client).await;
    soon(client.shutdown(SOON)).await.unwrap();
    assert_eq!(departed(&mut host).await, Some(Departure::Gone(peer)));
    assert!(!host.server.control.admitted(peer));

    let (staying, cut) = (host.client().await, host.client().await);
    let stays = admit(&mut host, &staying).await;
    let peer = admit(&mut host, &cut).await;
    assert!(host.server.control.disconnect(peer));
    assert!(!host.server.control.disconnect(peer));
    assert_eq!(departed(&mut host).await, Some(Departure::Gone(peer)));
    assert_eq!(admit(&mut host, &staying).await, stays);
    assert_ne!(admit(&mut host, &cut).await, peer);
}

#[tokio::test]
async fn an_idle_client_with_a_slower_ping_is_asked_and_stays() {
    let mut host = TestServer::with(transport(), anywhere(), with_short_pings()).await;
    let mut slow = limits();
    slow.ping_interval = SHORT_PING * 100;
    let at = &host.server.bound.requests;
    let (own, _) = context_with(slow);
    let client = soon(host.transport.connect(at, own)).await.unwrap();
    let peer = admit(&mut host, &client).await;
    let until = Clock.after(SHORT_PING * 6);
    let told = Clock.deadline(until, host.server.departures.next()).await;
    assert!(told.is_err(), "{told:?}");
    assert_eq!(admit(&mut host, &client).await, peer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_goes_while_nothing_is_read_is_told() {
    let mut few = with_short_pings();
    few.requests_unanswered = 1;
    let mut host = TestServer::with(transport(), anywhere(), few).await;
    let going = host.client().await;
    let peer = admit(&mut host, &going).await;
    let busy = host.client().await;
    let asking = spawn(async move { ask(&busy, "held").await });
    let held = soon(host.server.requests.next()).await.unwrap();
    let gone = Clock.now();
    soon(going.shutdown(SOON)).await.unwrap();
    assert_eq!(departed(&mut host).await, Some(Departure::Gone(peer)));
    assert!(Clock.now() - gone < SHORT_PING * 10);
    held.reply.send("done".into()).unwrap();
    assert_eq!(soon(asking).await.unwrap().unwrap(), "done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_request_over_a_slow_connection_is_a_sign_of_life() {
    // Long beside what a busy machine holds this process up.
    let ping = SHORT_PING * 2;
    let mut patient = limits();
    patient.ping_interval = ping;
    let mut host = TestServer::with(transport(), anywhere(), patient.clone()).await;
    let requests = host.server.bound.requests.port().unwrap();
    let gate = Gate::with_pause(requests, Duration::from_millis(100)).await;
    let at = loopback(gate.port);
    let (own, _) = context_with(patient);
    let client = soon(host.transport.connect(&at, own)).await.unwrap();
    let peer = admit(&mut host, &client).await;
    let answering = host.echo();
    let sent = Clock.now();
    let reply = ask(&client, vec![7; 1 << 19]).await.unwrap();
    assert_eq!(reply.len(), 1 << 19);
    assert!(Clock.now() - sent > ping * 3, "it was not slow");
    let control = &host.server.control;
    assert!(control.admitted(peer), "the peer was cut");
    soon(control.shutdown(SOON)).await.unwrap();
    soon(answering).await.unwrap();
}
