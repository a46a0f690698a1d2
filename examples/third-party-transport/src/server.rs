//! A server: what listens, whom it takes, how requests are handed out, and how it ends.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use saline_engine::{Lifetime};
use saline_protocol::transport::{Address, Context, Endpoint, Error, ErrorKind, Metric, Peer, Request, Requests, Result, ServeAt, Server, ServerControl};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_tungstenite::accept_hdr_async_with_config;
use tokio_tungstenite::tungstenite::handshake::server::{
    ErrorResponse, Request as Upgrade, Response,
};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::http::header::SEC_WEBSOCKET_PROTOCOL;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::connection::Connection;
use crate::link::{Link, PROTOCOL, Watched, config};
use crate::lock;
use crate::options::{addresses, path};
use crate::publisher::{Hub, WsPublisher};

/// Connections that may be in their handshake at once, beside those that stand.
const HALF_OPEN: usize = 1024;
/// Requests that were read and wait to be handed out; above, no more are read.
const WAITING: usize = 64;

/// Starts a server at `endpoint`.
pub(crate) async fn serve(endpoint: &Endpoint, context: Context) -> Result<Server> {
    let (listeners, bound) = bind(endpoint).await?;
    let permits = |limit: usize| Arc::new(Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS)));
    let lifetime = Lifetime::new(context, Duration::ZERO);
    let core = Arc::new(Core {
        path: path(endpoint),
        unanswered: permits(lifetime.context.limits.requests_unanswered),
        connections: permits(lifetime.context.limits.connections),
        half_open: permits(HALF_OPEN),
        last: AtomicU64::new(0),
        inbox: Inbox::new(lifetime.stop.clone()),
        hub: Arc::new(Hub::new(Arc::clone(&lifetime.context.metrics))),
        lifetime: Arc::clone(&lifetime),
    });
    for listener in listeners {
        lifetime.spawn(accept(listener, Open(Arc::clone(&core))));
    }
    let alive = Arc::new(lifetime.cut.clone().drop_guard());
    Ok(Server::new(
        Box::new(WsRequests {
            core: Arc::clone(&core),
            _alive: Arc::clone(&alive),
        }),
        Arc::new(WsPublisher {
            hub: Arc::clone(&core.hub),
            _alive: Arc::clone(&alive),
        }),
        Arc::new(WsControl {
            core,
            _alive: alive,
        }),
        ServeAt {
            requests: bound,
            publications: None,
        },
    ))
}

/// Listens on every address of `endpoint`, or on none; for a name that is the first address of it that
/// can be bound. Returns what was bound, port 0 replaced.
async fn bind(endpoint: &Endpoint) -> Result<(Vec<TcpListener>, Endpoint)> {
    addresses(endpoint)?;
    let mut bound = endpoint.clone();
    let mut listeners = Vec::new();
    if let Address::Network { addresses, .. } = &mut bound.address {
        for address in addresses {
            let refused = |error: std::io::Error| {
                Error::new(
                    ErrorKind::Refused,
                    format!("cannot listen on {address} of {endpoint}"),
                )
                .with_source(error)
            };
            let listener = TcpListener::bind((address.host.as_str(), address.port))
                .await
                .map_err(refused)?;
            address.port = listener.local_addr().map_err(refused)?.port();
            listeners.push(listener);
        }
    }
    Ok((listeners, bound))
}

/// What all parts of one server share.
#[derive(Debug)]
pub(crate) struct Core {
    path: String,
    /// One permit for each request that may be held unanswered.
    unanswered: Arc<Semaphore>,
    connections: Arc<Semaphore>,
    half_open: Arc<Semaphore>,
    /// The number of the last connection.
    last: AtomicU64,
    pub(crate) inbox: Inbox,
    pub(crate) hub: Arc<Hub>,
    pub(crate) lifetime: Arc<Lifetime>,
}

impl Core {
    /// Waits until one more request may be held. False once a shutdown has begun.
    pub(crate) async fn permit(&self) -> bool {
        tokio::select! {
            biased;
            () = self.lifetime.stop.cancelled() => false,
            permit = self.unanswered.acquire() => permit.map(|permit| permit.forget()).is_ok(),
        }
    }

    /// A request was answered.
    pub(crate) fn give_back(&self) {
        self.unanswered.add_permits(1);
    }
}

/// Lives in the task that accepts, so that nobody waits for ever however that ends.
struct Open(Arc<Core>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.hub.silence();
        self.0.inbox.end();
    }
}

/// Requests between the connections and whoever handles them.
#[derive(Debug)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    places: Arc<Semaphore>,
    /// A shutdown has begun.
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct Waiting {
    requests: VecDeque<(Request, OwnedSemaphorePermit)>,
    /// Nothing is handed out any more.
    ended: bool,
}

impl Inbox {
    fn new(stop: CancellationToken) -> Self {
        Self {
            waiting: Mutex::default(),
            arrived: Notify::new(),
            places: Arc::new(Semaphore::new(WAITING)),
            stop,
        }
    }

    /// Adds a request as soon as there is room. One that comes too late is dropped, which tells its
    /// client; so is one of a connection that has `closed` meanwhile.
    pub(crate) async fn push(&self, request: Request, closed: &CancellationToken) {
        let place = tokio::select! {
            biased;
            () = closed.cancelled() => return,
            () = self.stop.cancelled() => return,
            place = Arc::clone(&self.places).acquire_owned() => place,
        };
        let mut waiting = lock(&self.waiting);
        match place {
            Ok(place) if !waiting.ended => waiting.requests.push_back((request, place)),
            _ => {
                drop(waiting);
                drop(request);
                return;
            }
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    async fn next(&self) -> Option<Request> {
        loop {
            {
                let mut waiting = lock(&self.waiting);
                if waiting.ended || self.stop.is_cancelled() {
                    return None;
                }
                if let Some((request, _place)) = waiting.requests.pop_front() {
                    return Some(request);
                }
            }
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = self.arrived.notified() => {}
            }
        }
    }

    /// Hands nothing out any more. Those who wait are told that there will be no reply.
    fn end(&self) {
        let rest = {
            let mut waiting = lock(&self.waiting);
            waiting.ended = true;
            std::mem::take(&mut waiting.requests)
        };
        // Outside of the lock, because each of them tells its connection.
        drop(rest);
        self.arrived.notify_one();
    }
}

/// Hands requests out.
#[derive(Debug)]
struct WsRequests {
    core: Arc<Core>,
    _alive: Arc<DropGuard>,
}

#[async_trait]
impl Requests for WsRequests {
    async fn next(&mut self) -> Option<Request> {
        self.core.inbox.next().await
    }
}

impl Drop for WsRequests {
    fn drop(&mut self) {
        self.core.inbox.end();
    }
}

/// Cuts peers and ends the server.
#[derive(Debug)]
struct WsControl {
    core: Arc<Core>,
    _alive: Arc<DropGuard>,
}

#[async_trait]
impl ServerControl for WsControl {
    fn disconnect(&self, peer: Peer) -> bool {
        self.core.hub.cut(peer.connection)
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.core.hub.silence();
        self.core.inbox.end();
        self.core.lifetime.shutdown(deadline).await
    }
}

/// The task that accepts.
async fn accept(listener: TcpListener, open: Open) {
    let core = &open.0;
    let context = &core.lifetime.context;
    let mut backoff = context.backoff.clone();
    loop {
        let accepted = tokio::select! {
            biased;
            () = core.lifetime.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                backoff.reset();
                match Arc::clone(&core.half_open).try_acquire_owned() {
                    Ok(place) => {
                        let core = Arc::clone(core);
                        let greeting = greet(Arc::clone(&core), stream, address, place);
                        core.lifetime.spawn(greeting);
                    }
                    Err(_) => context.count(Metric::PeersRefused),
                }
            }
            Err(error) => {
                // Out of descriptors, say: trying again at once would only take a processor.
                let delay = backoff.next_delay();
                tracing::warn!(%error, ?delay, "cannot accept connections");
                tokio::select! {
                    () = core.lifetime.stop.cancelled() => return,
                    () = context.clock.pause(delay) => {}
                }
            }
        }
    }
}

/// Shakes hands with a client, and serves it until its connection ends.
async fn greet(
    core: Arc<Core>,
    stream: TcpStream,
    address: SocketAddr,
    half_open: OwnedSemaphorePermit,
) {
    let context = &core.lifetime.context;
    let Ok((stream, heard)) = Watched::new(stream, context) else {
        return;
    };
    let mut place = None;
    #[allow(clippy::result_large_err, reason = "the library's own type")]
    let decide = |upgrade: &Upgrade, mut response: Response| {
        let refuse = |status| {
            let mut refusal = ErrorResponse::new(None);
            *refusal.status_mut() = status;
            Err(refusal)
        };
        if upgrade.uri().path() != core.path {
            return refuse(StatusCode::NOT_FOUND);
        }
        if upgrade.headers().get(SEC_WEBSOCKET_PROTOCOL) != Some(&PROTOCOL) {
            return refuse(StatusCode::BAD_REQUEST);
        }
        place = Arc::clone(&core.connections).try_acquire_owned().ok();
        if place.is_none() {
            return refuse(StatusCode::SERVICE_UNAVAILABLE);
        }
        response
            .headers_mut()
            .insert(SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
        Ok(response)
    };
    let limits = &context.limits;
    let upgrading = accept_hdr_async_with_config(stream, decide, Some(config(limits)));
    let until = context.clock.after(limits.handshake_timeout);
    let upgraded = tokio::select! {
        biased;
        () = core.lifetime.stop.cancelled() => return,
        upgraded = context.clock.deadline(until, upgrading) => upgraded,
    };
    let Ok(Ok(socket)) = upgraded else {
        tracing::debug!(%address, "a peer did not shake hands");
        context.count(Metric::PeersRefused);
        return;
    };
    drop(half_open);
    let number = core.last.fetch_add(1, Ordering::Relaxed) + 1;
    let connection = Connection::new(Arc::clone(&core), Peer::new(number, Some(address)));
    core.hub.admit(&connection);
    context.count(Metric::Connected);
    let (sink, source) = socket.split();
    let link = Link {
        source,
        sink,
        heard,
    };
    connection.run(link).await;
    // Its place is free again when all of it has gone.
    drop(place);
}
