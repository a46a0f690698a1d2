//! Strangers who speak ZMTP as no socket does: what `build.rs` mends in libzmq.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{SOON, TestServer, ask};

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
