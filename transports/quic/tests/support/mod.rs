//! Servers, clients, and a network that misbehaves on command.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part of it, and all of it is tests"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{
    Address, Backoff, Client, Clock, Context, Counters, Delivery, Endpoint, HostPort, Limits,
    Publisher, Result, ServeAt, Server, ServerControl, Subscriber, Tls, Topic, TopicFilter,
    Transport,
};
use saline_quic::Quic;
use tokio::net::UdpSocket;
use tokio::sync::Notify;

/// The link ping of these tests.
pub const PING: Duration = Duration::from_millis(400);

/// How long anything may take that has no time promised.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Short times.
pub fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.ping_interval = PING;
    limits.connect_timeout = Duration::from_secs(4);
    limits.handshake_timeout = Duration::from_secs(1);
    limits
}

pub fn context(limits: Limits) -> (Context, Arc<Counters>) {
    let counters = Counters::new();
    let backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(200));
    let context = Context::new(limits)
        .with_metrics(Arc::clone(&counters) as _)
        .with_backoff(backoff);
    (context, counters)
}

/// A server that answers every request with its payload.
pub struct Host {
    pub publisher: Arc<dyn Publisher>,
    pub control: Arc<dyn ServerControl>,
    pub bound: ServeAt,
    pub counters: Arc<Counters>,
    pub context: Context,
}

impl Host {
    pub async fn start() -> Self {
        Self::start_at(Endpoint::network("quic", HostPort::new("127.0.0.1", 0))).await
    }

    pub async fn start_at(endpoint: Endpoint) -> Self {
        Self::start_with(endpoint, None).await
    }

    pub async fn start_with(endpoint: Endpoint, tls: Option<Tls>) -> Self {
        let (context, counters) = context(limits());
        let context = context.with_tls(tls);
        let at = ServeAt {
            requests: endpoint,
            publications: None,
        };
        let server = Quic::new().serve(at, context.clone()).await.unwrap();
        let Server {
            mut requests,
            publisher,
            control,
            bound,
            ..
        } = server;
        context.spawn(async move {
            while let Some(request) = requests.next().await {
                let payload = request.payload.clone();
                request.reply.send(payload).unwrap();
            }
        });
        Self {
            publisher,
            control,
            bound,
            counters,
            context,
        }
    }

    pub fn address(&self) -> SocketAddr {
        match &self.bound.requests.address {
            Address::Network { addresses, .. } => addresses[0].as_socket_address().unwrap(),
            Address::Local(_) => unreachable!(),
        }
    }

    pub async fn publish(&self, topic: &str, payload: impl Into<Bytes>) {
        let topic = topic.parse().unwrap();
        self.publisher
            .publish(&topic, payload.into())
            .await
            .unwrap();
    }
}

/// A client of whatever answers at `address`.
pub async fn client(address: SocketAddr) -> Arc<dyn Client> {
    counted_client(address).await.0
}

pub async fn counted_client(address: SocketAddr) -> (Arc<dyn Client>, Arc<Counters>) {
    let (context, counters) = context(limits());
    let endpoint = Endpoint::network("quic", address.into());
    let client = Quic::new().connect(&endpoint, context).await.unwrap();
    (client, counters)
}

pub async fn ask(client: &Arc<dyn Client>, payload: impl Into<Bytes>) -> Result<Bytes> {
    client
        .request(payload.into(), Clock.after(TEST_TIMEOUT))
        .await
}

pub async fn subscribe(client: &Arc<dyn Client>, topic: &str) -> Box<dyn Subscriber> {
    let topic: Topic = topic.parse().unwrap();
    let filters = vec![TopicFilter::Prefix(topic)];
    let deadline = Clock.after(TEST_TIMEOUT);
    client.subscribe(None, filters, deadline).await.unwrap()
}

pub async fn next(subscriber: &mut Box<dyn Subscriber>) -> Delivery {
    let next = Clock.deadline(Clock.after(TEST_TIMEOUT), subscriber.next());
    next.await.expect("a delivery in time").expect("no end")
}

/// Waits until `condition` holds, where there is nothing to await.
///
/// A refused peer hears of it before the server's task counts it: QUIC closes a connection in a task of its own.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let until = Clock.after(TEST_TIMEOUT);
    while !condition() {
        assert!(Clock.now() < until, "{what}: not in time");
        Clock.pause(Duration::from_millis(5)).await;
    }
}

/// What stands between one client and one server: it forwards datagrams, as long as it is told to.
pub struct Relay {
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    black_hole: AtomicBool,
    /// In a thousand.
    lost: AtomicU32,
    doubled: AtomicU32,
    delayed: AtomicU32,
    rebind: Notify,
}

impl Relay {
    /// Forwards to `server`, with tasks of `context`.
    pub async fn start(server: SocketAddr, context: &Context) -> Self {
        let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = front.local_addr().unwrap();
        let state = Arc::new(State::default());
        context.spawn(forward(front, server, Arc::clone(&state)));
        Self { address, state }
    }

    /// Swallows everything from now on, or lets it pass again.
    pub fn black_hole(&self, on: bool) {
        self.state.black_hole.store(on, Ordering::Relaxed);
    }

    /// Loses, doubles and reorders so many of a thousand datagrams.
    pub fn misbehave(&self, lost: u32, doubled: u32, delayed: u32) {
        self.state.lost.store(lost, Ordering::Relaxed);
        self.state.doubled.store(doubled, Ordering::Relaxed);
        self.state.delayed.store(delayed, Ordering::Relaxed);
    }

    /// Comes from another port from now on, as behind a router that was restarted.
    pub fn rebind(&self) {
        self.state.rebind.notify_one();
    }
}

async fn forward(front: UdpSocket, server: SocketAddr, state: Arc<State>) {
    // xorshift64*, the same every time.
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut chance = move |of_a_thousand: u32| {
        random ^= random >> 12;
        random ^= random << 25;
        random ^= random >> 27;
        random.wrapping_mul(0x2545_f491_4f6c_dd1d) % 1000 < u64::from(of_a_thousand)
    };
    let mut back = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut client = None;
    let mut late: Option<(Vec<u8>, bool)> = None;
    let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        let (datagram, to_server) = tokio::select! {
            () = state.rebind.notified() => {
                back = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                continue;
            }
            Ok((length, from)) = front.recv_from(&mut up) => {
                client = Some(from);
                (up[..length].to_vec(), true)
            }
            Ok((length, _)) = back.recv_from(&mut down) => (down[..length].to_vec(), false),
            else => return,
        };
        if state.black_hole.load(Ordering::Relaxed) || chance(state.lost.load(Ordering::Relaxed)) {
            continue;
        }
        let times = 1 + u32::from(chance(state.doubled.load(Ordering::Relaxed)));
        let held = late.take();
        let mut now = vec![(datagram, to_server); times as usize];
        if held.is_none() && chance(state.delayed.load(Ordering::Relaxed)) {
            late = now.pop();
        }
        for (datagram, to_server) in now.iter().chain(&held) {
            // A datagram that cannot be sent is lost, as datagrams are.
            let _ = match (to_server, client) {
                (true, _) => back.send_to(datagram, server).await,
                (false, Some(client)) => front.send_to(datagram, client).await,
                (false, None) => Ok(0),
            };
        }
    }
}
