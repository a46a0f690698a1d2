//! What the tests have in common: a server, a client, and waits with a deadline.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::layer;
use saline_protocol::transport::{
    Backoff, Client, Clock, Context, Counters, Delivery, Endpoint, ErrorKind, HostPort, Limits,
    Metric, Request, Result, ServeAt, Server, Subscriber, TopicFilter, Transport,
};
use saline_zeromq::ZeroMq;

/// A link ping where silence is what is tested.
pub const SHORT_PING: Duration = Duration::from_millis(500);
/// How long anything may take that must happen.
pub const SOON: Duration = Duration::from_secs(20);

pub fn transport() -> Arc<dyn Transport> {
    layer::wrap(Arc::new(ZeroMq::new()))
}

pub fn limits() -> Limits {
    let mut limits = Limits::default();
    // Long beside what a busy machine holds this process up.
    limits.ping_interval = Duration::from_secs(2);
    limits.connect_timeout = Duration::from_secs(3);
    limits.max_message = 1 << 20;
    limits
}

/// The same with a ping every [`SHORT_PING`].
pub fn with_short_pings() -> Limits {
    let mut limits = limits();
    limits.ping_interval = SHORT_PING;
    limits
}

/// A context with short times, and its counters.
pub fn context_with(limits: Limits) -> (Context, Arc<Counters>) {
    let counters = Counters::new();
    let backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(200));
    let context = Context::new(limits)
        .with_backoff(backoff)
        .with_metrics(Arc::<Counters>::clone(&counters));
    (context, counters)
}

pub fn context() -> Context {
    context_with(limits()).0
}

pub fn loopback(port: u16) -> Endpoint {
    Endpoint::network("zeromq", HostPort::new("127.0.0.1", port))
}

pub fn local_path(path: std::path::PathBuf) -> Endpoint {
    Endpoint::local("zeromq", path)
}

pub fn anywhere() -> ServeAt {
    ServeAt {
        requests: loopback(0),
        publications: Some(loopback(0)),
    }
}

/// A server with what it needs to be served again.
pub struct TestServer {
    pub transport: Arc<dyn Transport>,
    pub context: Context,
    pub counters: Arc<Counters>,
    pub server: Server,
}

impl TestServer {
    pub async fn new() -> Self {
        Self::with(transport(), anywhere(), limits()).await
    }

    pub async fn with(transport: Arc<dyn Transport>, at: ServeAt, limits: Limits) -> Self {
        let (context, counters) = context_with(limits);
        let server = transport.serve(at, context.clone()).await.unwrap();
        Self {
            transport,
            context,
            counters,
            server,
        }
    }

    pub async fn client(&self) -> Arc<dyn Client> {
        let endpoint = &self.server.bound.requests;
        self.transport.connect(endpoint, context()).await.unwrap()
    }

    pub fn publications(&self) -> &Endpoint {
        self.server.bound.publications.as_ref().unwrap()
    }

    pub async fn subscribe(
        &self,
        client: &Arc<dyn Client>,
        filter: TopicFilter,
    ) -> Box<dyn Subscriber> {
        let deadline = Clock.after(SOON);
        client
            .subscribe(Some(self.publications()), vec![filter], deadline)
            .await
            .unwrap()
    }

    /// Answers every request with its payload until the server ends; returns the task's handle.
    pub fn echo(&mut self) -> tokio::task::JoinHandle<u64> {
        let empty = Box::new(NoRequests);
        let mut requests = std::mem::replace(&mut self.server.requests, empty);
        spawn(async move {
            let mut count = 0;
            while let Some(Request { payload, reply, .. }) = requests.next().await {
                count += 1;
                let _ = reply.send(payload);
            }
            count
        })
    }
}

/// In the place of requests that were moved to a task.
#[derive(Debug)]
pub struct NoRequests;

#[async_trait::async_trait]
impl saline_protocol::transport::Requests for NoRequests {
    async fn next(&mut self) -> Option<Request> {
        None
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "a test's own tasks end with its runtime"
)]
pub fn spawn<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(task)
}

/// Fails the test when `future` takes longer than it ever should.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    Clock
        .deadline(Clock.after(SOON), future)
        .await
        .expect("this must not take so long")
}

/// Looks until `condition` holds.
pub async fn until(condition: impl Fn() -> bool) {
    soon(async {
        while !condition() {
            Clock.pause(Duration::from_millis(2)).await;
        }
    })
    .await;
}

pub async fn ask(client: &Arc<dyn Client>, payload: impl Into<Bytes>) -> Result<Bytes> {
    soon(client.request(payload.into(), Clock.after(Duration::from_secs(10)))).await
}

pub fn exact(topic: &str) -> TopicFilter {
    TopicFilter::Exact(topic.parse().unwrap())
}

pub fn prefix(topic: &str) -> TopicFilter {
    TopicFilter::Prefix(topic.parse().unwrap())
}

pub async fn next(subscriber: &mut Box<dyn Subscriber>) -> Delivery {
    soon(subscriber.next()).await.expect("the subscriber ended")
}

/// The next message as text.
pub async fn next_text(subscriber: &mut Box<dyn Subscriber>) -> (String, String) {
    match next(subscriber).await {
        Delivery::Message { topic, payload } => (
            topic.to_string(),
            String::from_utf8(payload.to_vec()).unwrap(),
        ),
        other => panic!("expected a message, not {other:?}"),
    }
}

pub fn refused(counters: &Counters) -> u64 {
    counters.get(Metric::PeersRefused)
}

/// Serves again at the same place, as soon as the old server is gone.
pub async fn restart(old: TestServer, at: ServeAt) -> TestServer {
    let transport = Arc::clone(&old.transport);
    old.context.cancel.cancel();
    drop(old.server);
    let (context, counters) = context_with(limits());
    let server = soon(async {
        loop {
            match transport.serve(at.clone(), context.clone()).await {
                Ok(server) => break server,
                // A server that was not shut down closes its sockets in the background.
                Err(error) => assert_eq!(error.kind(), ErrorKind::Refused),
            }
            Clock.pause(Duration::from_millis(5)).await;
        }
    })
    .await;
    TestServer {
        transport,
        context,
        counters,
        server,
    }
}

/// A TCP proxy that can stop carrying anything, without closing a connection: a black hole. Or one
/// that is slow.
pub struct Gate {
    pub port: u16,
    open: tokio::sync::watch::Sender<bool>,
}

impl Gate {
    pub async fn to(target: u16) -> Self {
        Self::with_pause(target, Duration::ZERO).await
    }

    /// Carries 16 KiB in every `pause`, and takes no more than that from a sender.
    pub async fn with_pause(target: u16, pause: Duration) -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        if !pause.is_zero() {
            socket.set_recv_buffer_size(16 << 10).unwrap();
        }
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(100).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (open, opened) = tokio::sync::watch::channel(true);
        spawn(async move {
            while let Ok((inward, _)) = listener.accept().await {
                let Ok(outward) = tokio::net::TcpStream::connect(("127.0.0.1", target)).await
                else {
                    continue;
                };
                let (inward_read, inward_write) = inward.into_split();
                let (outward_read, outward_write) = outward.into_split();
                spawn(carry(inward_read, outward_write, opened.clone(), pause));
                spawn(carry(outward_read, inward_write, opened.clone(), pause));
            }
        });
        Self { port, open }
    }

    pub fn close(&self) {
        self.open.send_replace(false);
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }
}

async fn carry(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut opened: tokio::sync::watch::Receiver<bool>,
    pause: Duration,
) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if opened.wait_for(|open| *open).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        if !pause.is_zero() {
            Clock.pause(pause).await;
        }
    }
}
