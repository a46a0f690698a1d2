//! Servers, clients, and links between them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{
    Address, Backoff, Client, Clock, Context, Counters, Delivery, Endpoint, HostPort, Limits,
    Publisher, Result, ServeAt, Server, ServerControl, Subscriber, Tls, Topic, TopicFilter,
    Transport,
};
use saline_quic::Quic;
use saline_testing::links::{Carries, Link};

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
    /// Held as long as the server lives.
    _context: Context,
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
            _context: context,
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

/// Opens a link between one client and `server`, which passes datagrams.
pub async fn relay(server: SocketAddr) -> Link {
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Link::open(Carries::Datagrams, &[(here, server)])
        .await
        .unwrap()
}
