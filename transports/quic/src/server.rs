//! A server: how it starts and ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use saline_protocol::transport::{
    Context, Error, ErrorKind, Metric, Peer, Result, ServeAt, Server, ServerControl,
};
use tokio::task::JoinHandle;

use crate::connection::{attend, code};
use crate::inbox::QuicRequests;
use crate::publisher::QuicPublisher;
use crate::runtime::ContextRuntime;
use crate::state::{HALF_OPEN, ServerCore};
use crate::{certificate, options, socket};

/// When so many are, whoever comes must first prove its address (a Retry, one round trip).
const CROWDED: usize = 64;

/// How long connections that were cut are told so.
const CLOSING: Duration = Duration::from_millis(250);

/// Starts a server at `at`.
pub(crate) async fn serve(at: ServeAt, context: Context) -> Result<Server> {
    let mut places = Vec::new();
    for address in socket::addresses(&at.requests)? {
        let found = socket::resolve(address).await.map_err(|error| {
            Error::new(ErrorKind::Refused, format!("cannot resolve {address}")).with_source(error)
        })?;
        places.push(found);
    }
    // From here on nothing is awaited, so that nothing stays bound when this is dropped.
    let tls = context.tls.as_ref();
    let (crypto, hash) = certificate::server(tls)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(socket::transport(&context.limits, socket::Side::Server));
    config.max_incoming(HALF_OPEN);
    let core = ServerCore::new(context);
    let buffer = options::udp_buffer(&at.requests.options);
    let mut bound = at;
    let endpoints = bind(&core, &places, buffer, &config, &mut bound)?;
    for endpoint in &endpoints {
        core.tasks
            .spawn(accept(Arc::clone(&core), endpoint.clone()));
    }
    let guard = CloseOnDrop(Arc::clone(&core));
    let task = core.context.spawn(end(guard, endpoints));
    let alive = Arc::new(Alive(Arc::clone(&core)));
    Ok(Server::new(
        Box::new(QuicRequests {
            core: Arc::clone(&core),
            _alive: Arc::clone(&alive),
        }),
        Arc::new(QuicPublisher {
            core: Arc::clone(&core),
            _alive: Arc::clone(&alive),
        }),
        Arc::new(QuicControl {
            core,
            certificate: hash,
            task: tokio::sync::Mutex::new(Some(task)),
            _alive: alive,
        }),
        bound,
    ))
}

/// Binds every address to the first of its meanings that can be, and writes down the ports.
fn bind(
    core: &Arc<ServerCore>,
    places: &[Vec<SocketAddr>],
    buffer: usize,
    config: &quinn::ServerConfig,
    bound: &mut ServeAt,
) -> Result<Vec<quinn::Endpoint>> {
    let saline_protocol::transport::Address::Network { addresses, .. } =
        &mut bound.requests.address
    else {
        return Ok(Vec::new());
    };
    // [::] takes IPv4 as well, unless that is asked for beside it.
    let only_v6 = places.iter().flatten().any(SocketAddr::is_ipv4);
    let mut endpoints = Vec::with_capacity(places.len());
    for (address, places) in addresses.iter_mut().zip(places) {
        let mut last = None;
        let open = |place: &SocketAddr| {
            let opened = socket::open(*place, buffer, only_v6).and_then(|socket| {
                let port = socket.local_addr()?.port();
                let runtime = ContextRuntime::new(&core.tasks, Arc::default());
                let config = Some(config.clone());
                let endpoint = quinn::Endpoint::new(Default::default(), config, socket, runtime)?;
                Ok((endpoint, port))
            });
            opened.map_err(|error| last = Some(error)).ok()
        };
        let Some((endpoint, port)) = places.iter().find_map(open) else {
            let mut refused = Error::new(ErrorKind::Refused, format!("cannot bind {address}"));
            if let Some(error) = last {
                refused = refused.with_source(error);
            }
            return Err(refused);
        };
        address.port = port;
        endpoints.push(endpoint);
    }
    Ok(endpoints)
}

/// Takes connections until the endpoint is closed.
async fn accept(core: Arc<ServerCore>, endpoint: quinn::Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        if core.drain.is_cancelled() {
            incoming.refuse();
            continue;
        }
        if core.is_full() {
            core.context.count(Metric::PeersRefused);
            incoming.refuse();
            continue;
        }
        let crowded = core.half_open.available_permits() < HALF_OPEN - CROWDED;
        if crowded && !incoming.remote_address_validated() {
            // It may be retried, because its address is not validated.
            let _ = incoming.retry();
            continue;
        }
        match Arc::clone(&core.half_open).try_acquire_owned() {
            Ok(permit) => core
                .tasks
                .spawn(attend(Arc::clone(&core), incoming, permit)),
            Err(_) => incoming.ignore(),
        }
    }
}

/// Lives in the server's task, so that the server goes however the task ends.
struct CloseOnDrop(Arc<ServerCore>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The server's task: waits for the shutdown, and ends what is there.
async fn end(guard: CloseOnDrop, endpoints: Vec<quinn::Endpoint>) {
    let core = &guard.0;
    core.drain.cancelled().await;
    let deadline = core.stop_requests();
    let clock = core.context.clock;
    let graceful = async {
        core.settle().await;
        core.say_goodbye().await;
    };
    let in_time = clock.deadline(deadline, graceful).await.is_ok();
    for endpoint in &endpoints {
        endpoint.close(code::SHUTDOWN, b"the server goes");
    }
    if !in_time {
        core.cut_short();
        // Whoever is cut is told, as far as it listens.
        let told = async {
            for endpoint in &endpoints {
                endpoint.wait_idle().await;
            }
        };
        let _ = clock.deadline(clock.after(CLOSING), told).await;
    }
    drop(endpoints);
    core.tasks.end().await;
}

/// Shared by the parts of a server. When the last is dropped without a shutdown, the server ends.
#[derive(Debug)]
pub(crate) struct Alive(Arc<ServerCore>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.drain.cancel();
    }
}

/// Cuts peers and ends the server.
#[derive(Debug)]
struct QuicControl {
    core: Arc<ServerCore>,
    certificate: [u8; 32],
    /// The server's task, until a shutdown has joined it.
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    _alive: Arc<Alive>,
}

#[async_trait]
impl ServerControl for QuicControl {
    fn disconnect(&self, peer: Peer) -> bool {
        self.core.cut(peer.connection)
    }

    fn certificate(&self) -> Option<[u8; 32]> {
        Some(self.certificate)
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.core.begin_shutdown(deadline);
        let mut task = self.task.lock().await;
        if let Some(running) = task.as_mut() {
            // It ends by itself or by the context's token; both are a shutdown.
            let _ = running.await;
            *task = None;
        }
        if self.core.was_cut_short() {
            return Err(Error::new(
                ErrorKind::TimedOut,
                "something was owed at the deadline of the shutdown",
            ));
        }
        Ok(())
    }
}
