//! How servers and clients begin and end, and what strangers can do to them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support::*;
use saline_protocol::transport::{
    Address, Clock, Context, Endpoint, ErrorKind, HostPort, Limits, Request, ServeAt, Transport,
};

fn local(folder: &Path) -> ServeAt {
    ServeAt {
        requests: Endpoint::local("zeromq", folder.join("requests.ipc")),
        publications: Some(Endpoint::local("zeromq", folder.join("publications.ipc"))),
    }
}

fn all_local() -> (tempfile::TempDir, ServeAt) {
    let folder = tempfile::tempdir().unwrap();
    let at = local(folder.path());
    (folder, at)
}

/// One whole life at `at`: serve, ask, publish, and shut both sides down.
async fn live(transport: &Arc<dyn Transport>, at: ServeAt) -> ServeAt {
    let mut host = TestServer::with(Arc::clone(transport), at, limits()).await;
    let counting = host.echo();
    let own = context();
    let bound = host.server.bound.clone();
    let client = transport
        .connect(&bound.requests, own.clone())
        .await
        .unwrap();
    let mut subscriber = host.subscribe(&client, exact("t")).await;
    assert_eq!(ask(&client, "x").await.unwrap(), "x");
    let t = "t".parse().unwrap();
    host.server.publisher.publish(&t, "y".into()).await.unwrap();
    assert_eq!(next_text(&mut subscriber).await.1, "y");

    soon(client.shutdown(SOON)).await.unwrap();
    assert!(
        own.tracker.is_empty(),
        "{} tasks of a client are left",
        own.tracker.len()
    );
    assert_eq!(soon(subscriber.next()).await, None);
    assert_eq!(soon(subscriber.next()).await, None);
    assert_eq!(
        ask(&client, "x").await.unwrap_err().kind(),
        ErrorKind::Closed
    );
    soon(client.shutdown(SOON)).await.unwrap();

    soon(host.server.control.shutdown(SOON)).await.unwrap();
    let left = host.context.tracker.len();
    assert_eq!(left, 0, "{left} tasks of a server are left");
    assert_eq!(soon(counting).await.unwrap(), 1);
    let closed = host.server.publisher.publish(&t, "z".into()).await;
    assert_eq!(closed.unwrap_err().kind(), ErrorKind::Closed);
    soon(host.server.control.shutdown(SOON)).await.unwrap();
    bound
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_frees_the_ports_at_once_twenty_times() {
    let transport = transport();
    let mut at = anywhere();
    for _ in 0..20 {
        at = live(&transport, at).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_endpoints_do_the_same() {
    let transport = transport();
    let (folder, at) = all_local();
    for _ in 0..5 {
        assert_eq!(live(&transport, at.clone()).await, at);
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "the sockets are removed"
    );
}

#[tokio::test]
async fn ipv6_is_served() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let at = Endpoint::network("zeromq", HostPort::new("::1", 0));
    let at = ServeAt {
        requests: at.clone(),
        publications: Some(at),
    };
    live(&transport(), at).await;
}

#[tokio::test]
async fn a_server_listens_on_every_address() {
    let mut at = anywhere();
    at.requests = Endpoint::network("zeromq", HostPort::new("127.0.0.1", 0));
    if let saline_protocol::transport::Address::Network { addresses, .. } = &mut at.requests.address
    {
        addresses.push(HostPort::new("127.0.0.2", 0));
    }
    let mut host = TestServer::with(transport(), at, limits()).await;
    host.echo();
    let saline_protocol::transport::Address::Network { addresses, .. } =
        host.server.bound.requests.address.clone()
    else {
        panic!("not a network endpoint");
    };
    assert_eq!(addresses.len(), 2);
    for address in addresses {
        assert_ne!(address.port, 0);
        let at = Endpoint::network("zeromq", address);
        let client = host.transport.connect(&at, context()).await.unwrap();
        assert_eq!(ask(&client, "x").await.unwrap(), "x");
    }
}

#[tokio::test]
async fn an_endpoint_in_use_is_refused_by_name() {
    let transport = transport();
    let (_folder, at) = all_local();
    for at in [anywhere(), at] {
        let mut host = TestServer::with(Arc::clone(&transport), at, limits()).await;
        host.echo();
        let taken = host.server.bound.clone();
        let error = transport.serve(taken.clone(), context()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        let name = match &taken.requests.address {
            Address::Local(path) => path.display().to_string(),
            Address::Network { .. } => taken.requests.to_string(),
        };
        assert!(error.to_string().contains(&name), "{error}");
        // Whoever was there still is.
        let client = host.client().await;
        assert_eq!(ask(&client, "x").await.unwrap(), "x");
    }
}

#[tokio::test]
async fn a_path_that_a_dead_process_left_is_taken_over_and_a_file_is_not() {
    let (folder, at) = all_local();
    drop(std::os::unix::net::UnixListener::bind(folder.path().join("requests.ipc")).unwrap());
    live(&transport(), at.clone()).await;
    std::fs::write(folder.path().join("requests.ipc"), "precious").unwrap();
    let error = transport().serve(at, context()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    let kept = std::fs::read_to_string(folder.path().join("requests.ipc")).unwrap();
    assert_eq!(kept, "precious");
}

#[tokio::test]
async fn a_path_that_is_too_long_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("x".repeat(120));
    let mut at = anywhere();
    at.requests = Endpoint::local("zeromq", &long);
    let error = transport().serve(at.clone(), context()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("107"), "{error}");
    let error = transport()
        .connect(&at.requests, context())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[tokio::test]
async fn an_absent_local_server_is_unreachable_at_once() {
    let (_folder, at) = all_local();
    let before = Clock.now();
    let error = transport()
        .connect(&at.requests, context())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(Clock.now() - before < limits().connect_timeout);
}

#[tokio::test]
async fn a_place_that_cannot_be_bound_is_refused_and_not_a_panic() {
    let mut at = anywhere();
    at.requests = Endpoint::network("zeromq", HostPort::new("192.0.2.1", 0));
    let error = transport().serve(at.clone(), context()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    at.requests = Endpoint::local("zeromq", "/proc/nowhere/x.ipc");
    let error = transport().serve(at, context()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_handed_out_is_still_answered_during_a_shutdown() {
    let mut host = TestServer::new().await;
    let client = host.client().await;
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            spawn(async move { ask(&client, "x").await })
        })
        .collect();
    let mut held = Vec::new();
    for _ in 0..50 {
        held.push(soon(host.server.requests.next()).await.unwrap());
    }
    let control = Arc::clone(&host.server.control);
    let ending = spawn(async move { control.shutdown(SOON).await });
    assert!(soon(host.server.requests.next()).await.is_none());
    for Request { reply, .. } in held {
        reply.send(vec![3; 100_000].into()).unwrap();
    }
    for asked in asking {
        assert_eq!(soon(asked).await.unwrap().unwrap(), vec![3; 100_000]);
    }
    soon(ending).await.unwrap().unwrap();
    assert!(host.context.tracker.is_empty());
}

#[tokio::test]
async fn a_shutdown_does_not_wait_beyond_its_deadline() {
    let mut host = TestServer::new().await;
    let client = host.client().await;
    let asking = spawn(async move { ask(&client, "x").await });
    let held = soon(host.server.requests.next()).await.unwrap();
    let ending = host.server.control.shutdown(Duration::from_millis(100));
    assert_eq!(soon(ending).await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(host.context.tracker.is_empty());
    assert_eq!(
        soon(asking).await.unwrap().unwrap_err().kind(),
        ErrorKind::ConnectionLost
    );
    // The way back is gone, which a handler need not know.
    held.reply.send("late".into()).unwrap();
}

#[tokio::test]
async fn a_shutdown_that_nobody_waits_for_goes_on() {
    let host = TestServer::new().await;
    let client = host.client().await;
    let began = Clock
        .deadline(Clock.now(), host.server.control.shutdown(SOON))
        .await;
    drop(began);
    until(|| host.context.tracker.is_empty()).await;
    soon(host.server.control.shutdown(SOON)).await.unwrap();
    let began = Clock.deadline(Clock.now(), client.shutdown(SOON)).await;
    drop(began);
    soon(client.shutdown(SOON)).await.unwrap();
}

#[tokio::test]
async fn what_is_dropped_or_cancelled_ends_too() {
    let host = TestServer::new().await;
    let own = context();
    let at = &host.server.bound.requests;
    let client = host.transport.connect(at, own.clone()).await.unwrap();
    let subscriber = host.subscribe(&client, exact("t")).await;
    // Two tasks of the client, and one of the subscription.
    assert_eq!(own.tracker.len(), 3);
    drop(subscriber);
    until(|| own.tracker.len() == 2).await;
    drop(client);
    until(|| own.tracker.is_empty()).await;

    let client = host.transport.connect(at, own.clone()).await.unwrap();
    let mut subscriber = host.subscribe(&client, exact("t")).await;
    let asking = {
        let client = client.clone();
        spawn(async move { ask(&client, "x").await })
    };
    until(|| host.server.publisher.subscriptions(&"t".parse().unwrap()) == 1).await;
    own.cancel.cancel();
    until(|| own.tracker.is_empty()).await;
    assert_eq!(
        soon(asking).await.unwrap().unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(soon(subscriber.next()).await, None);
    assert_eq!(
        ask(&client, "x").await.unwrap_err().kind(),
        ErrorKind::Closed
    );
    soon(client.shutdown(SOON)).await.unwrap();

    let TestServer {
        server, context, ..
    } = host;
    drop(server.requests);
    drop(server.publisher);
    assert_eq!(context.tracker.len(), 2);
    drop(server.control);
    until(|| context.tracker.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_costs_nobody_else_anything() {
    let mut host = TestServer::new().await;
    host.echo();
    let client = host.client().await;
    let mut subscriber = host.subscribe(&client, exact("t")).await;
    let ports = [
        host.server.bound.requests.port().unwrap(),
        host.publications().port().unwrap(),
    ];
    let noise: Vec<u8> = (0..100_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let greeting = {
        // A ZMTP 3 greeting with the mechanism NULL, then noise where a command is expected.
        let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0];
        bytes.extend(b"NULL");
        bytes.resize(64, 0);
        bytes
    };
    for round in 0..10 {
        for port in ports {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            if round % 2 == 0 {
                stream.write_all(&greeting).unwrap();
            }
            let _ = stream.write_all(&noise[round..]);
            stream
                .set_read_timeout(Some(Duration::from_millis(20)))
                .unwrap();
            let mut sink = [0; 1000];
            while matches!(stream.read(&mut sink), Ok(1..)) {}
        }
        assert_eq!(ask(&client, "x").await.unwrap(), "x");
    }
    host.server
        .publisher
        .publish(&"t".parse().unwrap(), "y".into())
        .await
        .unwrap();
    assert_eq!(next_text(&mut subscriber).await.1, "y");
    let counters = host.counters.clone();
    until(|| refused(&counters) > 0).await;
}

/// Peers that speak ZeroMQ, and nonsense in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strange_zeromq_peers_are_counted_and_cost_nobody_else_anything() {
    let mut host = TestServer::new().await;
    host.echo();
    let client = host.client().await;
    let mut subscriber = host.subscribe(&client, exact("t")).await;
    let requests = format!(
        "tcp://127.0.0.1:{}",
        host.server.bound.requests.port().unwrap()
    );
    let publications = format!("tcp://127.0.0.1:{}", host.publications().port().unwrap());
    let strangers = zmq::Context::new();
    let dealer = strangers.socket(zmq::DEALER).unwrap();
    dealer.connect(&requests).unwrap();
    let named = strangers.socket(zmq::DEALER).unwrap();
    named.set_identity(b"I choose my name").unwrap();
    named.connect(&requests).unwrap();
    let xsub = strangers.socket(zmq::XSUB).unwrap();
    xsub.connect(&publications).unwrap();
    for socket in [&dealer, &named, &xsub] {
        socket.set_linger(0).unwrap();
        // A request without a hello.
        socket
            .send(vec![1u8, 4, 0, 0, 0, 0, 0, 0, 0, 0, 9], 0)
            .unwrap();
        socket.send("", 0).unwrap();
        socket.send(vec![1u8; 2000], 0).unwrap();
        // libzmq cuts this one, and does not say why.
        socket
            .send_multipart((0..100).map(|_| vec![4u8; 10]), 0)
            .unwrap();
    }
    let counters = host.counters.clone();
    until(|| refused(&counters) >= 5).await;
    assert_eq!(ask(&client, "x").await.unwrap(), "x");
    host.server
        .publisher
        .publish(&"t".parse().unwrap(), "y".into())
        .await
        .unwrap();
    assert_eq!(next_text(&mut subscriber).await.1, "y");
}

/// What a SUB socket says first, as ZMTP 3.0 has it. The real one sends no nonsense.
fn raw_sub(port: u16) -> TcpStream {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0];
    bytes.extend(b"NULL");
    bytes.resize(64, 0);
    let mut ready = b"\x05READY\x0bSocket-Type\0\0\0\x03SUB".to_vec();
    bytes.extend([4, ready.len() as u8]);
    bytes.append(&mut ready);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&bytes).unwrap();
    // libzmq takes nothing else before it has said READY itself.
    stream.read_exact(&mut [0; 64 + 2 + 26]).unwrap();
    stream
}

/// Withdrawals that a stranger makes up do not stop the numbers of a real subscriber.
#[tokio::test]
async fn a_stranger_cannot_withdraw_what_others_subscribed_to() {
    let host = TestServer::new().await;
    let client = host.client().await;
    let mut subscriber = host.subscribe(&client, exact("t")).await;
    let mut stranger = raw_sub(host.publications().port().unwrap());
    for _ in 0..10 {
        stranger.write_all(b"\x00\x04\x00t/\x00").unwrap();
    }
    stranger.write_all(b"\x00\x04\x01u/\x00").unwrap();
    let count = |name: &str| host.server.publisher.subscriptions(&name.parse().unwrap());
    until(|| count("u") == 1).await;
    assert_eq!(
        count("t"),
        0,
        "the withdrawals did not come through: this tests nothing"
    );
    let t = "t".parse().unwrap();
    for text in ["1", "2", "3"] {
        soon(host.server.publisher.publish(&t, text.into()))
            .await
            .unwrap();
        assert_eq!(next_text(&mut subscriber).await.1, text);
    }
}

/// A connection with more subscriptions than one may have is cut, and nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_with_endless_subscriptions_is_cut() {
    let host = TestServer::new().await;
    let client = host.client().await;
    let mut subscriber = host.subscribe(&client, exact("t")).await;
    let mut stranger = raw_sub(host.publications().port().unwrap());
    stranger.set_write_timeout(Some(SOON)).unwrap();
    // A number in each, as a topic of ten digits.
    let cut = (0..1_000_000u32).any(|number| {
        let frame = format!("\0\x0d\x01{number:010}/\0");
        stranger.write_all(frame.as_bytes()).is_err()
    });
    assert!(cut, "a million subscriptions were taken");
    let t = "t".parse().unwrap();
    soon(host.server.publisher.publish(&t, "y".into()))
        .await
        .unwrap();
    assert_eq!(next_text(&mut subscriber).await.1, "y");
    assert!(refused(&host.counters) > 0);
}

#[tokio::test]
async fn limits_beyond_the_capabilities_are_refused() {
    let mut limits = Limits::default();
    limits.max_message = 2 << 30;
    let error = transport()
        .serve(anywhere(), Context::new(limits))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}
