//! Strangers who speak ZMTP as no socket does: what `build.rs` mends in libzmq.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use saline_protocol::transport::{AdmissionLimits, Metric};

use crate::support::{SOON, TestServer, anywhere, ask, limits, refused, transport, until};

/// A DEALER that has shaken hands.
fn dealer(port: u16) -> TcpStream {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
    bytes.extend(b"NULL");
    bytes.resize(64, 0);
    let mut ready = b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER".to_vec();
    bytes.extend([4, ready.len() as u8]);
    bytes.append(&mut ready);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.set_write_timeout(Some(SOON)).unwrap();
    stream.write_all(&bytes).unwrap();
    // The greeting of a ROUTER, and its READY with an identity, which is empty.
    let mut head = [0; 64 + 2];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; head[65].into()];
    stream.read_exact(&mut body).unwrap();
    stream
}

/// A command, with what stands behind its name.
fn command(name: &str, rest: &[u8]) -> Vec<u8> {
    let body = [&[name.len() as u8], name.as_bytes(), rest].concat();
    [&[4, body.len() as u8], &body[..]].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_without_end_is_cut() {
    let mut host = TestServer::new().await;
    host.echo();
    let client = host.client().await;
    let mut stranger = dealer(host.server.bound.requests.port().unwrap());
    // A mebibyte of frames that announce another one.
    let frames = [1, 1, 9].repeat(1 << 18);
    let cut = (0..64).any(|_| stranger.write_all(&frames).is_err());
    assert!(cut, "64 MiB of one message were taken");
    assert_eq!(ask(&client, "x").await.unwrap(), "x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_is_answered_with_what_it_said_and_no_more() {
    let host = TestServer::new().await;
    let mut stranger = dealer(host.server.bound.requests.port().unwrap());
    for short in [&[][..], &[0]] {
        stranger.write_all(&command("PING", short)).unwrap();
    }
    // A time to live of none, and what is to come back.
    stranger.write_all(&command("PING", b"\0\0mine")).unwrap();
    let expected = command("PONG", b"mine");
    let mut answer = vec![0; expected.len()];
    stranger.read_exact(&mut answer).unwrap();
    assert_eq!(answer, expected);
    stranger
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    assert!(stranger.read(&mut [0]).is_err(), "there is more");
}

/// libzmq makes room for what a message announces, so a stranger could hold `max_message` with nine bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_above_the_size_of_a_part_is_refused_when_it_is_announced() {
    let mut host = TestServer::new().await;
    host.echo();
    let mut stranger = dealer(host.server.bound.requests.port().unwrap());
    let announced = limits().max_message as u64;
    let head = [&[2][..], &announced.to_be_bytes()].concat();
    stranger.write_all(&head).unwrap();
    let mut said = Vec::new();
    stranger.read_to_end(&mut said).unwrap();
    let client = host.client().await;
    assert_eq!(ask(&client, "x").await.unwrap(), "x");
}

/// A frame of ZMTP with a frame of the request port in it.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (2 + body.len() as u64).to_be_bytes();
    [&[2][..], &length, &[1, kind], body].concat()
}

/// Says hello and then parts of one request without end, and returns the answer to its end.
fn parts_and_end(port: u16, count: usize) -> Vec<u8> {
    let mut stranger = dealer(port);
    stranger.write_all(&frame(1, &[])).unwrap();
    let id = 7u64.to_le_bytes();
    let part = frame(10, &[&id[..], &[0; 1 << 16]].concat());
    for _ in 0..count {
        stranger.write_all(&part).unwrap();
    }
    stranger.write_all(&frame(4, &id)).unwrap();
    // The answer to the hello, and the head of a short frame.
    let mut head = [0; 4 + 2];
    stranger.read_exact(&mut head).unwrap();
    let mut body = vec![0; head[5].into()];
    stranger.read_exact(&mut body).unwrap();
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_strangers_are_bounded_together() {
    let mut limits = limits();
    let mut admission = AdmissionLimits::default();
    admission.partial_bytes = 1 << 18;
    limits.admission = Some(admission);
    let mut host = TestServer::with(transport(), anywhere(), limits).await;
    host.echo();
    let port = host.server.bound.requests.port().unwrap();
    let answer = |kind: u8| [&[1, kind][..], &7u64.to_le_bytes()].concat();
    // More than a request may have, more than strangers may hold, and a request.
    assert_eq!(parts_and_end(port, 17), answer(6));
    assert_eq!(parts_and_end(port, 5), answer(6));
    let client = host.client().await;
    assert_eq!(
        ask(&client, vec![7; 200_000]).await.unwrap(),
        [7; 200_000][..]
    );
    assert!(host.counters.get(Metric::PeersRefused) > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_and_does_not_read_is_cut_and_counted() {
    let mut limits = limits();
    // Nobody is given up for being silent.
    limits.ping_interval = 4 * SOON;
    limits.requests_in_flight = 16;
    limits.requests_unanswered = 16;
    let mut host = TestServer::with(transport(), anywhere(), limits).await;
    host.echo();
    let client = host.client().await;
    let mut stranger = dealer(host.server.bound.requests.port().unwrap());
    stranger.write_all(&frame(1, &[])).unwrap();
    let request = frame(4, &[&7u64.to_le_bytes()[..], &[0; 16 << 10]].concat());
    let cut = (0..4000).any(|_| stranger.write_all(&request).is_err());
    assert!(cut, "it may ask for ever");
    until(|| refused(&host.counters) > 0).await;
    assert_eq!(ask(&client, "x").await.unwrap(), "x");
}

/// Connects, says `greeting`, and returns whether the server ends the connection.
fn is_refused(port: u16, greeting: &[u8]) -> bool {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.set_write_timeout(Some(SOON)).unwrap();
    stream.write_all(greeting).unwrap();
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// Messages of ZMTP 1 and 2 pass by what `build.rs` mends, because their peers make no handshake that could be
/// refused: only the ZAP domain that `bind.rs` sets keeps them out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_that_speak_zmtp_1_or_2_are_refused() {
    let mut limits = limits();
    // A server that waits for more of a greeting is found out before it gives up.
    limits.handshake_timeout = 2 * SOON;
    let mut host = TestServer::with(transport(), anywhere(), limits).await;
    host.echo();
    let client = host.client().await;
    let publications = host.publications().port().unwrap();
    let requests = host.server.bound.requests.port().unwrap();
    // DEALER and SUB, as RFC 23 numbers them.
    for (port, socket_type) in [(requests, 5), (publications, 2)] {
        // The length of an identity, its flags, and no byte of it. What follows would be a first message.
        let without_signature = [&[1, 0][..], &[3, 0, 1, 1], &[0; 64]].concat();
        // A signature and the revision of 1.0, or of 2.0 with a type and an identity.
        let signature = [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f];
        let of_1 = [&signature[..], &[0], &[0; 64]].concat();
        let of_2 = [&signature[..], &[1, socket_type, 0, 0], &[0, 2, 1, 1]].concat();
        for greeting in [without_signature, of_1, of_2] {
            assert!(is_refused(port, &greeting), "port {port} took {greeting:?}");
        }
    }
    assert_eq!(ask(&client, "x").await.unwrap(), "x");
}
