//! Peers that are none: garbage on the port, and QUIC that is not ours.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use crate::support::{Host, PING, TEST_TIMEOUT, ask, client, eventually, limits};
use quinn::crypto::rustls::QuicClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use saline_protocol::transport::{Clock, Metric};

/// Code of a connection that is closed for breaking the protocol.
const VIOLATION: u32 = 1;

/// Takes everything.
#[derive(Debug)]
struct Blind;

impl ServerCertVerifier for Blind {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        vec![rustls::SignatureScheme::ED25519]
    }
}

/// A QUIC connection without our client.
async fn raw(
    to: SocketAddr,
    alpn: &[u8],
) -> Result<(quinn::Endpoint, quinn::Connection), quinn::ConnectionError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Blind))
        .with_no_client_auth();
    tls.alpn_protocols = vec![alpn.to_vec()];
    let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let endpoint = quinn::Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into()).unwrap();
    let connection = endpoint.connect_with(config, to, "any").unwrap().await?;
    Ok((endpoint, connection))
}

/// A header as `frame.rs` documents it.
fn header(kind: u8, number: u64, length: u32) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(number.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes
}

async fn closed_with(connection: &quinn::Connection) -> Option<u64> {
    let closed = Clock.deadline(Clock.after(TEST_TIMEOUT), connection.closed());
    match closed.await.expect("the server closes it") {
        quinn::ConnectionError::ApplicationClosed(close) => Some(close.error_code.into_inner()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_port_disturbs_nobody() {
    let host = Host::start().await;
    let client = client(host.address()).await;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut random = 1u64;
    for round in 0..2000u32 {
        let mut datagram = vec![0; (round as usize * 7) % 1400];
        for byte in &mut datagram {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *byte = random.to_be_bytes()[0];
        }
        match (round % 4, datagram.first_mut()) {
            // What looks like a long header, an Initial, and a short header.
            (0, Some(first)) => *first = 0xc0,
            (1, Some(first)) => *first = 0x40,
            _ => {}
        }
        if round % 4 == 0 && datagram.len() > 5 {
            datagram[1..5].copy_from_slice(&1u32.to_be_bytes());
        }
        socket.send_to(&datagram, host.address()).unwrap();
        if round % 200 == 0 {
            assert_eq!(ask(&client, "beside it").await.unwrap(), "beside it");
        }
    }
    assert_eq!(ask(&client, "after it").await.unwrap(), "after it");
    assert_eq!(host.counters.get(Metric::Connected), 1);
    assert_eq!(host.counters.get(Metric::Disconnected), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_breaks_the_protocol_is_cut_alone() {
    let host = Host::start().await;
    let steady = client(host.address()).await;
    let hello = header(1, 1, 0);
    let greeted = |then: Vec<u8>| [hello.clone(), then].concat();
    let above = u32::try_from(limits().max_message).unwrap() + 1;
    let evil: Vec<(&str, Vec<u8>)> = vec![
        ("no frame", vec![0xff; 40]),
        ("a request before the greeting", header(4, 1, 0)),
        ("another version", header(1, 2, 0)),
        ("a greeting twice", greeted(header(1, 1, 0))),
        ("a huge request", greeted(header(4, 1, u32::MAX))),
        ("a request above the limit", greeted(header(4, 1, above))),
        ("a huge greeting", header(1, 1, u32::MAX)),
        ("a frame of a server", greeted(header(32, 1, 0))),
        ("a subscription to nothing", greeted(header(2, 1, 0))),
        (
            "a subscription that is cut short",
            greeted([header(2, 1, 3), vec![0, 9, 0]].concat()),
        ),
        (
            "a topic that is none",
            greeted([header(2, 1, 5), vec![0, 2, 0, b'/', b'/']].concat()),
        ),
    ];
    for (refused, (what, bytes)) in (1..).zip(evil) {
        let (_endpoint, connection) = raw(host.address(), b"saline/1").await.unwrap();
        let (mut send, _receive) = connection.open_bi().await.unwrap();
        send.write_all(&bytes).await.unwrap();
        assert_eq!(
            closed_with(&connection).await,
            Some(u64::from(VIOLATION)),
            "{what}"
        );
        let refused_peers = || host.counters.get(Metric::PeersRefused);
        eventually(what, || refused_peers() >= refused).await;
        assert_eq!(refused_peers(), refused, "{what}");
        assert_eq!(ask(&steady, what).await.unwrap(), what);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_cut_after_the_handshake_timeout() {
    let host = Host::start().await;
    let started = Clock.now();
    let (_endpoint, connection) = raw(host.address(), b"saline/1").await.unwrap();
    connection.closed().await;
    assert!(started.elapsed() < limits().handshake_timeout * 3);
    assert_eq!(host.counters.get(Metric::Connected), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_protocol_is_refused_in_the_handshake() {
    let host = Host::start().await;
    assert!(raw(host.address(), b"h3").await.is_err());
    assert_eq!(host.counters.get(Metric::Connected), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_without_reading_is_read_no_further() {
    const SIZE: u32 = 32 * 1024;
    let host = Host::start().await;
    let steady = client(host.address()).await;
    let (_endpoint, connection) = raw(host.address(), b"saline/1").await.unwrap();
    let (mut send, _receive) = connection.open_bi().await.unwrap();
    send.write_all(&header(1, 1, 0)).await.unwrap();
    let mut taken = 0;
    let asking = async {
        for id in 1..=2048 {
            let request = [header(4, id, SIZE), vec![7; SIZE as usize]].concat();
            // Without pings it is cut before long.
            if send.write_all(&request).await.is_err() {
                break;
            }
            taken += SIZE;
        }
    };
    let _ = Clock.deadline(Clock.after(PING * 4), asking).await;
    // What both ends' windows hold, and what may be owed.
    assert!(taken < 32 * 1024 * 1024, "{taken} bytes were taken");
    assert_eq!(ask(&steady, "beside it").await.unwrap(), "beside it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_subscribes_without_reading_disturbs_nobody() {
    let host = Host::start().await;
    let steady = client(host.address()).await;
    let (_endpoint, connection) = raw(host.address(), b"saline/1").await.unwrap();
    let (mut send, _receive) = connection.open_bi().await.unwrap();
    send.write_all(&header(1, 1, 0)).await.unwrap();
    for hundred in 0..200u64 {
        let mut pairs = Vec::new();
        for id in 100 * hundred..100 * (hundred + 1) {
            pairs.extend(header(2, id, 4));
            pairs.extend([0, 1, 0, b't']);
            pairs.extend(header(3, id, 0));
        }
        // Without pings it is cut before long.
        if send.write_all(&pairs).await.is_err() {
            break;
        }
    }
    assert_eq!(ask(&steady, "beside it").await.unwrap(), "beside it");
    assert!(host.publisher.subscriptions(&"t".parse().unwrap()) <= 1);
}
