//! What the tests have in common: a server and its clients, and peers that speak bytes.

pub mod authority;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::layer;
use saline_protocol::transport::{
    Backoff, Client, Clock, Context, Counters, Endpoint, HostPort, Limits, Metric, Request, Result,
    ServeAt, Server, Transport,
};
use saline_tcp::Tcp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A link ping in all tests, unless they say otherwise.
pub const PING: Duration = Duration::from_millis(500);
/// How long anything may take that must happen.
pub const SOON: Duration = Duration::from_secs(20);

pub fn transport() -> Arc<dyn Transport> {
    layer::wrap(Arc::new(Tcp::new()))
}

pub fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.ping_interval = PING;
    limits.connect_timeout = Duration::from_secs(3);
    limits.handshake_timeout = Duration::from_secs(1);
    limits.max_message = 1 << 20;
    limits
}

/// A context with short times, and its counters.
pub fn context(limits: Limits) -> (Context, Arc<Counters>) {
    let counters = Counters::new();
    let backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(200));
    let context = Context::new(limits)
        .with_backoff(backoff)
        .with_metrics(Arc::<Counters>::clone(&counters));
    (context, counters)
}

pub fn loopback(port: u16) -> Endpoint {
    Endpoint::network("tcp", HostPort::new("127.0.0.1", port))
}

pub fn at(requests: Endpoint) -> ServeAt {
    ServeAt {
        requests,
        publications: None,
    }
}

/// A server, and what it counts.
pub struct TestServer {
    pub context: Context,
    pub counters: Arc<Counters>,
    pub server: Server,
}

impl TestServer {
    pub async fn new() -> Self {
        Self::with(loopback(0), limits()).await.unwrap()
    }

    pub async fn with(endpoint: Endpoint, limits: Limits) -> Result<Self> {
        let (context, counters) = context(limits);
        let server = transport().serve(at(endpoint), context.clone()).await?;
        Ok(Self {
            context,
            counters,
            server,
        })
    }

    pub fn address(&self) -> SocketAddr {
        let port = self.server.bound.requests.port().unwrap();
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    pub async fn client(&self) -> Arc<dyn Client> {
        connect(&self.server.bound.requests).await.unwrap()
    }

    pub async fn raw(&self) -> Raw {
        Raw(TcpStream::connect(self.address()).await.unwrap())
    }

    pub async fn next(&mut self) -> Request {
        soon(self.server.requests.next()).await.unwrap()
    }

    /// Answers a request of `client` with its own payload, which proves that both work.
    pub async fn works(&mut self, client: &dyn Client) {
        let (reply, ()) = tokio::join!(ask(client, "steady"), async {
            let request = self.next().await;
            let payload = request.payload.clone();
            request.reply.send(payload).unwrap();
        });
        assert_eq!(reply.unwrap(), "steady");
    }

    pub fn refused(&self) -> u64 {
        self.counters.get(Metric::PeersRefused)
    }

    pub async fn shut_down(&self) {
        soon(self.server.control.shutdown(SOON)).await.unwrap();
        assert!(self.context.tracker.is_empty());
    }
}

pub async fn connect(endpoint: &Endpoint) -> Result<Arc<dyn Client>> {
    transport().connect(endpoint, context(limits()).0).await
}

pub async fn ask(client: &dyn Client, payload: impl Into<Bytes>) -> Result<Bytes> {
    client.request(payload.into(), Clock.after(SOON)).await
}

pub async fn soon<F: Future>(future: F) -> F::Output {
    let done = Clock.deadline(Clock.after(SOON), future).await;
    done.expect("it did not happen soon")
}

/// Waits until `condition` holds, where there is nothing to await.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let until = Clock.after(SOON);
    while !condition() {
        assert!(Clock.now() < until, "{what}: not soon");
        Clock.pause(Duration::from_millis(5)).await;
    }
}

pub const GREETING: u8 = 1;
pub const FULL: u8 = 2;
pub const REQUEST: u8 = 3;
pub const REPLY: u8 = 4;
pub const NO_REPLY: u8 = 5;
pub const SUBSCRIBE: u8 = 6;
pub const SUBSCRIBED: u8 = 7;
pub const SUBSCRIPTION_REFUSED: u8 = 8;
pub const PUBLICATION: u8 = 10;
pub const LAGGED: u8 = 11;
pub const PING_FRAME: u8 = 12;

/// A frame as it stands on the wire. Written down here once more, so that a change of the wire fails.
pub fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap();
    [&length.to_le_bytes()[..], &[kind], body].concat()
}

pub fn greeting() -> Vec<u8> {
    let ping = u32::try_from(PING.as_millis()).unwrap();
    let most = 1u64 << 20;
    let versions = &b"saline\x01\x01"[..];
    let body = [versions, &ping.to_le_bytes(), &most.to_le_bytes(), &[0]].concat();
    frame(GREETING, &body)
}

pub fn request(id: u64, payload: &[u8]) -> Vec<u8> {
    frame(REQUEST, &[&id.to_le_bytes()[..], payload].concat())
}

/// A subscription to exactly these topics.
pub fn subscription(id: u64, topics: &[&str]) -> Vec<u8> {
    let mut body = id.to_le_bytes().to_vec();
    body.extend_from_slice(&u16::try_from(topics.len()).unwrap().to_le_bytes());
    for topic in topics {
        body.push(0);
        body.extend_from_slice(&u16::try_from(topic.len()).unwrap().to_le_bytes());
        body.extend_from_slice(topic.as_bytes());
    }
    frame(SUBSCRIBE, &body)
}

/// A peer that speaks bytes.
pub struct Raw(pub TcpStream);

impl Raw {
    pub async fn say(&mut self, bytes: &[u8]) {
        soon(self.0.write_all(bytes)).await.unwrap();
    }

    /// Greets and hears the greeting of the other side.
    pub async fn greet(&mut self) {
        self.say(&greeting()).await;
        assert_eq!(self.hear().await.unwrap().0, GREETING);
    }

    /// The next frame, `None` at the end of the connection.
    pub async fn hear(&mut self) -> Option<(u8, Vec<u8>)> {
        soon(async {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).await.ok()?;
            let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            let mut body = vec![0; length as usize];
            self.0.read_exact(&mut body).await.ok()?;
            Some((head[4], body))
        })
        .await
    }

    /// The next frame that is no ping.
    pub async fn hear_more(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            let frame = self.hear().await;
            if !matches!(frame, Some((PING_FRAME, _))) {
                return frame;
            }
        }
    }

    /// Waits until the other side hangs up.
    pub async fn is_cut(&mut self) {
        while self.hear().await.is_some() {}
    }
}

/// The number at the beginning of a body.
pub fn number(body: &[u8]) -> u64 {
    u64::from_le_bytes(*body.first_chunk().unwrap())
}
