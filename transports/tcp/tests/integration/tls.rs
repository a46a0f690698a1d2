//! TLS: who gets in, who does not, and that either side says why.

use std::sync::Arc;

use crate::support::authority::Authority;
use crate::support::{
    SOON, TestServer, at, connect, context, eventually, limits, loopback, soon, transport,
};
use saline_protocol::transport::{
    Client, Clock, Endpoint, ErrorKind, Result, Server, Tls, VerifyPeer,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const HOST: &str = "127.0.0.1";

async fn serve(endpoint: Endpoint, tls: Option<Tls>) -> Result<TestServer> {
    let (context, counters) = context(limits());
    let context = context.with_tls(tls);
    let server: Server = transport().serve(at(endpoint), context.clone()).await?;
    Ok(TestServer {
        context,
        counters,
        server,
    })
}

async fn visit(server: &TestServer, tls: Option<Tls>) -> Result<Arc<dyn Client>> {
    let given = context(limits()).0.with_tls(tls);
    let endpoint = &server.server.bound.requests;
    soon(transport().connect(endpoint, given)).await
}

/// It gets in, asks, and knows the same certificate as the server does.
async fn welcome(server: &mut TestServer, tls: Tls) {
    let client = visit(server, Some(tls)).await.unwrap();
    server.works(&*client).await;
    assert!(client.peer_certificate().is_some());
    assert_eq!(
        client.peer_certificate(),
        server.server.control.certificate()
    );
    client.shutdown(SOON).await.unwrap();
}

/// It does not get in within the time to connect, learns why, and is counted.
async fn unwelcome(server: &TestServer, tls: Option<Tls>, why: &str) {
    let (before, since) = (server.refused(), Clock.now());
    let error = visit(server, tls).await.expect_err(why);
    assert!(Clock.now() - since < limits().connect_timeout);
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(
        error.to_string().contains(why),
        "{why:?} is not in: {error}"
    );
    eventually("counted", || server.refused() > before).await;
}

#[tokio::test]
async fn without_certificates_it_encrypts_and_both_ends_name_the_same() {
    let mut server = serve(loopback(0), Some(Tls::new())).await.unwrap();
    welcome(&mut server, Tls::new()).await;
    let first = server.server.control.certificate();
    server.shut_down().await;
    let again = server.server.bound.requests.clone();
    let mut server = serve(again, Some(Tls::new())).await.unwrap();
    assert_ne!(server.server.control.certificate(), first, "made afresh");
    welcome(&mut server, Tls::new()).await;
}

#[tokio::test]
async fn both_ways_certificates_of_one_authority_get_in() {
    let ours = Authority::new("ours");
    for verify in [VerifyPeer::Required, VerifyPeer::Optional] {
        let mut server = serve(loopback(0), Some(ours.tls(HOST, verify)))
            .await
            .unwrap();
        welcome(&mut server, ours.tls("minion", VerifyPeer::Required)).await;
        welcome(&mut server, ours.tls("minion", VerifyPeer::None)).await;
    }
}

#[tokio::test]
async fn a_server_refuses_who_has_no_good_certificate() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let required = ours.tls(HOST, VerifyPeer::Required);
    let mut server = serve(loopback(0), Some(required)).await.unwrap();
    let bare = ours.bare(VerifyPeer::Required);
    unwelcome(&server, Some(bare), "this side has none").await;
    let foreign = theirs.tls("minion", VerifyPeer::None);
    unwelcome(&server, Some(foreign), "of an unknown authority").await;
    let expired = ours.expired("minion", VerifyPeer::None);
    unwelcome(&server, Some(expired), "certificate has expired").await;
    // None of them did any harm.
    welcome(&mut server, ours.tls("minion", VerifyPeer::Required)).await;
}

#[tokio::test]
async fn where_it_is_optional_none_is_good_and_a_bad_one_is_not() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let optional = ours.tls(HOST, VerifyPeer::Optional);
    let mut server = serve(loopback(0), Some(optional)).await.unwrap();
    welcome(&mut server, ours.bare(VerifyPeer::Required)).await;
    let foreign = theirs.tls("minion", VerifyPeer::None);
    unwelcome(&server, Some(foreign), "of an unknown authority").await;
}

#[tokio::test]
async fn a_client_refuses_a_server_without_a_good_certificate() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    for verify in [VerifyPeer::Required, VerifyPeer::Optional] {
        for (shown, why) in [
            (theirs.tls(HOST, VerifyPeer::None), "unknown authority"),
            (ours.expired(HOST, VerifyPeer::None), "has expired"),
            (ours.tls("localhost", VerifyPeer::None), "another name"),
            (Tls::new(), "other side's certificate"),
        ] {
            let mut server = serve(loopback(0), Some(shown)).await.unwrap();
            unwelcome(&server, Some(ours.bare(verify)), why).await;
            // Who does not look takes it.
            welcome(&mut server, Tls::new()).await;
        }
    }
}

#[tokio::test]
async fn one_side_in_the_clear_is_told_at_once() {
    let secure = serve(loopback(0), Some(Tls::new())).await.unwrap();
    unwelcome(&secure, None, "speaks TLS, and ssl is not set here").await;
    let clear = serve(loopback(0), None).await.unwrap();
    unwelcome(&clear, Some(Tls::new()), "is ssl set there as well").await;
    assert_eq!(clear.server.control.certificate(), None);
}

#[tokio::test]
async fn who_does_not_speak_tls_is_counted_and_cut() {
    let server = serve(loopback(0), Some(Tls::new())).await.unwrap();
    let mut raw = TcpStream::connect(server.address()).await.unwrap();
    raw.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut heard = Vec::new();
    soon(raw.read_to_end(&mut heard)).await.unwrap();
    eventually("counted", || server.refused() == 1).await;
    // Nor does one get to stay that says nothing.
    let mut silent = TcpStream::connect(server.address()).await.unwrap();
    let since = Clock.now();
    let _ = soon(silent.read_to_end(&mut heard)).await;
    assert!(Clock.now() - since >= limits().handshake_timeout);
    eventually("counted", || server.refused() == 2).await;
}

#[tokio::test]
async fn local_endpoints_stay_clear() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("private").join("socket");
    let endpoint = Endpoint::local("tcp", path);
    let mut server = serve(endpoint.clone(), Some(Tls::new())).await.unwrap();
    assert_eq!(server.server.control.certificate(), None);
    let client = connect(&endpoint).await.unwrap();
    server.works(&*client).await;
    assert_eq!(client.peer_certificate(), None);
}

/// More than TLS and the socket hold, in both directions at once, and then silence: nothing may stay
/// behind in a buffer.
#[tokio::test]
async fn large_messages_cross_and_their_ends_arrive() {
    // No ping pushes the rest along.
    let mut rarely = limits();
    rarely.ping_interval = SOON * 10;
    let given = || context(rarely.clone()).0.with_tls(Some(Tls::new()));
    let mut server = serve(loopback(0), Some(Tls::new())).await.unwrap();
    server.context = given();
    let tcp = transport();
    let served = tcp.serve(at(loopback(0)), server.context.clone());
    server.server = served.await.unwrap();
    let connected = tcp.connect(&server.server.bound.requests, given());
    let client = connected.await.unwrap();
    let large = vec![7; 1 << 20];
    let asking: Vec<_> = (0..8)
        .map(|_| {
            let (client, large) = (Arc::clone(&client), large.clone());
            server.context.tracker.spawn(async move {
                let reply = client.request(large.into(), Clock.after(SOON)).await;
                reply.map(|reply| reply.len()).map_err(|error| error.kind())
            })
        })
        .collect();
    for _ in 0..8 {
        let request = server.next().await;
        let payload = request.payload.clone();
        request.reply.send(payload).unwrap();
    }
    for asked in asking {
        assert_eq!(soon(asked).await.unwrap(), Ok(1 << 20));
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_a_mistake_of_the_configuration() {
    let bad = Tls::new().with_certificate(b"none", b"none");
    let served = serve(loopback(0), Some(bad.clone())).await;
    assert_eq!(served.err().unwrap().kind(), ErrorKind::Config);
    let server = serve(loopback(0), Some(Tls::new())).await.unwrap();
    let visited = visit(&server, Some(bad)).await;
    assert_eq!(visited.unwrap_err().kind(), ErrorKind::Config);
}
