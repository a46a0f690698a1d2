//! What one run of one requirement has for itself.

use std::fmt;
use std::future::Future;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use saline_protocol::layer;
use saline_protocol::transport::{
    Address, Backoff, Clock, Context, Counters, Endpoint, Limits, ServeAt, Transport,
};
use tokio::task::JoinHandle;

use super::raw::{PipePlace, RawConnections};
use super::{Dice, Place, digest, seed};
use crate::{Backend, Failure, Outcome, Wire};

/// The link ping where silence or a loss is what is tested. What a backend promises within two pings is promised within
/// a second then.
pub const PING: Duration = Duration::from_millis(500);

/// How long the suite waits for what must happen and has no time promised.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(15);

/// How much later than promised a deadline may be kept: enough for a machine whose cores are busy.
pub(crate) const DEADLINE_SLACK: Duration = Duration::from_secs(3);

/// The first port of servers over UDP, each on an address of its run. The system gives none of these to a client, which over UDP
/// takes its port on every address: a server that comes back would find it taken.
const UDP_PORTS: u16 = 21_000;

/// Where the raw connections of one run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawAt {
    /// At the sockets under the endpoints: [`Backend::wire`].
    Sockets,
    /// Inside of the transport's own connections: [`Backend::raw`].
    Pipes,
}

/// A backend of its own, a host of its own, a folder of its own.
pub struct World {
    id: &'static str,
    backend: Arc<dyn Backend>,
    /// The backend, in its layers.
    pub transport: Arc<dyn Transport>,
    /// Its connections without the engine, where this run speaks inside of them.
    connections: Option<Arc<dyn RawConnections>>,
    /// Owns the suite's own tasks; its token ends everything when the run is over.
    root: Context,
    host: String,
    folder: tempfile::TempDir,
    /// Names that were given out.
    names: AtomicU32,
}

impl World {
    pub(crate) fn new(id: &'static str, backend: Arc<dyn Backend>, raw_at: RawAt) -> Outcome<Self> {
        let folder = tempfile::Builder::new()
            .prefix("saline-")
            .tempdir()
            .map_err(|error| Failure::new(format!("no temporary folder: {error}")))?;
        let raw = match raw_at {
            RawAt::Sockets => None,
            RawAt::Pipes => backend.raw(),
        };
        let (transport, connections) = match raw {
            Some(raw) => (layer::wrap(raw.transport), Some(raw.connections)),
            None => (backend.layered(), None),
        };
        Ok(Self {
            id,
            transport,
            connections,
            backend,
            root: Context::default(),
            host: loopback(),
            folder,
            names: AtomicU32::new(0),
        })
    }

    /// Ends what is still running.
    pub(crate) fn end(&self) {
        self.root.cancel.cancel();
    }

    /// The backend under test.
    pub fn backend(&self) -> &dyn Backend {
        self.backend.as_ref()
    }

    /// Whether this run speaks inside of the transport's own connections.
    pub(crate) fn is_inside(&self) -> bool {
        self.connections.is_some()
    }

    /// How many strangers come at once where `count` raw sockets would: inside of the transport's own connections a
    /// fourth, since each of these costs this process both of its ends, with whatever handshake they have.
    pub(crate) fn strangers(&self, count: usize) -> usize {
        if self.is_inside() { count / 4 } else { count }
    }

    /// What is under its endpoints in this run, if that is a socket.
    pub(crate) fn wire(&self) -> Option<Wire> {
        self.backend.wire().filter(|_| !self.is_inside())
    }

    /// Where raw connections to `endpoint` go, which was bound.
    pub(crate) fn place(&self, endpoint: &Endpoint) -> Outcome<Place> {
        match &self.connections {
            None => Place::of(endpoint, self.backend.wire()),
            Some(connections) => Ok(Place::Pipe(Box::new(PipePlace::new(
                Arc::clone(connections),
                endpoint.clone(),
                self.context().0,
            )))),
        }
    }

    /// Dice of this requirement's own, which fall as the run's seed says.
    pub fn dice(&self) -> Dice {
        Dice::new(seed() ^ digest(self.id))
    }

    /// The folder of this run, which goes with it. Nobody else may enter it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Reads and awaits time.
    pub fn clock(&self) -> Clock {
        self.root.clock
    }

    /// Runs a task of the suite's own.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.root.tracker.spawn(task)
    }

    /// The suite's limits: times that a machine keeps whose cores are busy for a second or two, and else the defaults.
    pub fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.ping_interval = Duration::from_secs(2);
        limits.connect_timeout = Duration::from_secs(5);
        limits.handshake_timeout = Duration::from_secs(3);
        limits
    }

    /// The same with a ping every [`PING`], for what is promised within two pings.
    pub fn with_short_pings(&self) -> Limits {
        let mut limits = self.limits();
        limits.ping_interval = PING;
        limits
    }

    /// The same with times so long that nobody is cut because he is slow, where the requirement itself loads the machine.
    pub fn unhurried(&self) -> Limits {
        let mut limits = self.limits();
        limits.ping_interval = Duration::from_secs(10);
        limits.connect_timeout = Duration::from_secs(10);
        limits.handshake_timeout = Duration::from_secs(10);
        limits
    }

    /// A context with a tracker, a token and counters of its own and the suite's limits.
    pub fn context(&self) -> (Context, Arc<Counters>) {
        self.context_with(self.limits())
    }

    /// The same with other limits.
    pub fn context_with(&self, limits: Limits) -> (Context, Arc<Counters>) {
        let counters = Counters::new();
        let backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(200));
        let mut context = self.root.child();
        context.limits = limits;
        context.backoff = backoff;
        context.metrics = Arc::clone(&counters) as _;
        (context, counters)
    }

    /// Where a server can be started that nothing else of this machine knows.
    pub fn fresh(&self) -> ServeAt {
        let mut at = self.at_port_zero();
        if self.wire() == Some(Wire::Udp) && cfg!(target_os = "linux") {
            for endpoint in [Some(&mut at.requests), at.publications.as_mut()] {
                if let Some(Address::Network { addresses, .. }) =
                    endpoint.map(|endpoint| &mut endpoint.address)
                {
                    let port =
                        UDP_PORTS + (self.names.fetch_add(1, Ordering::Relaxed) % 8192) as u16;
                    addresses.iter_mut().for_each(|address| address.port = port);
                }
            }
        }
        at
    }

    /// The same, where the system chooses the ports of whatever has any.
    pub fn at_port_zero(&self) -> ServeAt {
        self.fresh_on(&self.host)
    }

    /// The same on another host, where endpoints have hosts.
    pub fn fresh_on(&self, host: &str) -> ServeAt {
        let apart = self.transport.capabilities().publications_apart;
        let at = || {
            let name = self.name("server");
            let path = self.backend.endpoint_in(self.folder(), &name);
            path.or_else(|| self.backend.endpoint_at_broker(&self.broker_name(&name)))
                .unwrap_or_else(|| self.backend.endpoint(host))
        };
        ServeAt {
            requests: at(),
            publications: apart.then(at),
        }
    }

    /// `what` with a number that nothing else of this world has.
    fn name(&self, what: &str) -> String {
        format!("{what}-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// The same name, with what no other world of any process has in front of it: the name of its folder.
    fn broker_name(&self, name: &str) -> String {
        let folder = self.folder().file_name().unwrap_or_default();
        format!("{}-{name}", folder.to_string_lossy())
    }

    /// A path in the world's folder that nothing else of it has.
    pub(crate) fn path(&self, what: &str) -> PathBuf {
        self.folder().join(self.name(what))
    }

    /// A server on paths in the world's folder.
    pub fn fresh_local(&self) -> ServeAt {
        let scheme = self.transport.scheme();
        let apart = self.transport.capabilities().publications_apart;
        let at = |name: &str| Endpoint::local(scheme, self.folder.path().join(name));
        ServeAt {
            requests: at("requests"),
            publications: apart.then(|| at("publications")),
        }
    }

    /// Waits until `condition` holds, where the contract has nothing to await.
    ///
    /// # Errors
    /// When it does not within [`TEST_TIMEOUT`].
    pub async fn eventually(&self, what: &str, condition: impl Fn() -> bool) -> Outcome {
        let deadline = self.clock().after(TEST_TIMEOUT);
        while !condition() {
            if self.clock().now() >= deadline {
                return Err(Failure::new(format!("{what}: not within {TEST_TIMEOUT:?}")));
            }
            self.clock().pause(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("id", &self.id)
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

/// A loopback address that no other run uses where the system has many of them, so that a port
/// which a server has left stays free until it comes back.
fn loopback() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    if !cfg!(target_os = "linux") {
        return Ipv4Addr::LOCALHOST.to_string();
    }
    let run = LAST.fetch_add(1, Ordering::Relaxed);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let [.., last] = (1 + run % 250).to_be_bytes();
    Ipv4Addr::new(127, 1 + high % 250, low, last).to_string()
}
