//! A peer that does not do what ours do.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType, connect, recv, send, socket,
};
use saline_protocol::transport::{Clock, Context, Counters, Endpoint, Metric, ServeAt, Transport};
use saline_seqpacket::SeqPacket;

#[tokio::test(flavor = "multi_thread")]
async fn a_packet_that_is_too_large_costs_its_own_connection_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("master.sock");
    let endpoint = Endpoint::local("seqpacket", path.clone());
    let at = ServeAt {
        requests: endpoint.clone(),
        publications: None,
    };
    let counters = Counters::new();
    let context = Context::default().with_metrics(counters.clone());
    let mut server = SeqPacket::new().serve(at, context).await.unwrap();
    let client = SeqPacket::new()
        .connect(&endpoint, Context::default())
        .await
        .unwrap();

    let stranger = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    set_socket_timeout(&stranger, Timeout::Recv, Some(Duration::from_secs(5))).unwrap();
    connect(&stranger, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    let packet = vec![0; 100_000];
    send(&stranger, &packet, SendFlags::NOSIGNAL).unwrap();
    let mut room = [0; 64];
    let (_, heard) = recv(&stranger, &mut room, RecvFlags::empty()).unwrap();
    assert_eq!(heard, 0, "the server hangs up");

    let ask = client.request("ping".into(), Clock.after(Duration::from_secs(5)));
    let answer = async {
        let request = server.requests.next().await.unwrap();
        request.reply.send("pong".into()).unwrap();
    };
    assert_eq!(tokio::join!(ask, answer).0.unwrap(), "pong");
    server
        .control
        .shutdown(Duration::from_secs(5))
        .await
        .unwrap();
    assert_eq!(counters.get(Metric::PeersRefused), 1);
}
