//! One connection to a server: the addresses, and a fresh socket for each attempt.

use std::sync::Arc;
use std::time::Duration;

use saline_engine::Keepalive;
use saline_engine::net::{self, Candidate};
use saline_protocol::transport::{Context, Endpoint, Error, ErrorKind, Instant, Metric, Result};

use crate::liveness::{LookTimer, PeerLiveness, Verdict};
use crate::monitor::MonitoredSocket;
use crate::socket::{SharedContext, Socket, millis};

/// The events that the monitor of a connecting socket reports.
const EVENTS: u32 = zmq_sys::ZMQ_EVENT_CONNECTED
    | zmq_sys::ZMQ_EVENT_HANDSHAKE_SUCCEEDED
    | zmq_sys::ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq_sys::ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq_sys::ZMQ_EVENT_HANDSHAKE_FAILED_AUTH
    | zmq_sys::ZMQ_EVENT_CLOSED
    | zmq_sys::ZMQ_EVENT_DISCONNECTED;

/// Milliseconds until libzmq would connect again by itself: twelve days, for a socket that is closed
/// as soon as its connection is gone.
const NEVER: i32 = 1 << 30;

/// One address of an endpoint, as libzmq takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ZmqAddress {
    /// `tcp://address:port` or `ipc://path`.
    pub(crate) endpoint: String,
    /// Whether it needs the option ZMQ_IPV6.
    pub(crate) ipv6: bool,
    /// The same for people to read.
    pub(crate) place: Candidate,
}

/// Returns the addresses of an endpoint. Names are resolved at each call.
///
/// # Errors
/// `Config` when the endpoint is not of this backend's kind, `Unreachable` when no name resolves.
pub(crate) async fn addresses(endpoint: &Endpoint) -> Result<Vec<ZmqAddress>> {
    let candidates = net::candidates(endpoint).await?;
    candidates.into_iter().map(ZmqAddress::of).collect()
}

impl ZmqAddress {
    fn of(candidate: Candidate) -> Result<Self> {
        let place = candidate.clone();
        let path = match candidate {
            Candidate::Network { address, .. } => {
                return Ok(Self {
                    endpoint: format!("tcp://{address}"),
                    ipv6: address.is_ipv6(),
                    place,
                });
            }
            Candidate::Local(path) => path,
            other => {
                let why = format!("zeromq cannot reach {other:?}");
                return Err(Error::new(ErrorKind::Config, why));
            }
        };
        // libzmq reads these as a wildcard and as the abstract namespace.
        let text = path.to_str().filter(|text| !text.starts_with(['*', '@']));
        let Some(text) = text else {
            let why = "not a path that ZeroMQ takes: it is not UTF-8, or begins with * or @";
            let why = format!("socket path {}: {why}", path.display());
            return Err(Error::new(ErrorKind::Config, why));
        };
        Ok(Self {
            endpoint: format!("ipc://{text}"),
            ipv6: false,
            place,
        })
    }
}

/// A socket whose ZeroMQ connection is established, and the liveness of its peer.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) monitored: MonitoredSocket,
    /// The descriptor of the connection, as the monitor reported it.
    descriptor: Option<i32>,
    liveness: PeerLiveness,
    looks: LookTimer,
    context: Context,
}

impl Connection {
    /// Connects a fresh socket to `address`; `tune` sets what is particular to its kind.
    ///
    /// # Errors
    /// `Unreachable` when the connection is refused or does not stand at `deadline`.
    ///
    /// # Cancel safety
    /// The socket is closed when the future is dropped.
    pub(crate) async fn open(
        shared: &Arc<SharedContext>,
        context: &Context,
        address: &ZmqAddress,
        kind: zmq::SocketType,
        deadline: Instant,
        tune: impl FnOnce(&mut Socket) -> std::io::Result<()>,
    ) -> Result<Self> {
        let unreachable = |why: &'static str| Error::new(ErrorKind::Unreachable, why);
        let mut socket = Socket::new(shared, kind, &context.limits)?;
        let remaining = deadline.saturating_duration_since(context.clock.now());
        let tuned = || -> std::io::Result<()> {
            let options = socket.options();
            options.set_ipv6(address.ipv6)?;
            // Reconnecting is ours: a socket is used for one attempt and never again. -1 would say so
            // to libzmq, and so would IMMEDIATE, but both make it throw away what has come in and is
            // not yet read when a connection ends, the last replies of a server that shuts down.
            options.set_reconnect_ivl(NEVER)?;
            options.set_connect_timeout(millis(remaining))?;
            tune(&mut socket)
        }();
        tuned.map_err(|error| unreachable("cannot set up the socket").with_source(error))?;
        let mut monitored = MonitoredSocket::new(socket, EVENTS)?;
        monitored
            .socket
            .connect(&address.endpoint)
            .map_err(|error| unreachable("cannot connect").with_source(error))?;
        let mut descriptor = None;
        let ended = async {
            loop {
                let event = monitored.monitor.next().await;
                if event.kind != zmq_sys::ZMQ_EVENT_CONNECTED {
                    return event.kind;
                }
                descriptor = Some(event.value);
            }
        };
        let ask_after = Keepalive::new(&context.limits, context.limits.ping_interval).ping_after;
        match context.clock.deadline(deadline, ended).await {
            Ok(zmq_sys::ZMQ_EVENT_HANDSHAKE_SUCCEEDED) => Ok(Self {
                monitored,
                descriptor,
                liveness: PeerLiveness::new(context.clock.now(), &context.limits, ask_after),
                looks: LookTimer::new(context.clock.now(), &context.limits),
                context: context.clone(),
            }),
            Ok(zmq_sys::ZMQ_EVENT_CLOSED) => Err(unreachable("the connection was refused")),
            Ok(_) => Err(unreachable("no ZeroMQ peer answers there")),
            Err(_) => Err(unreachable("no answer in time")),
        }
    }

    /// Takes note that a message has come in.
    pub(crate) fn heard(&mut self) {
        self.liveness.heard();
    }

    /// Returns when to [look](Self::look) for signs of life next.
    pub(crate) fn look_due(&self) -> Instant {
        self.looks.due()
    }

    /// Judges the silence of the server. The caller reads everything that has come in before, because
    /// it was sent in time.
    pub(crate) fn look(&mut self) -> Verdict {
        let now = self.context.clock.now();
        match self.looks.begin(now) {
            Some(late) => self.liveness.look(now, late, self.descriptor),
            None => Verdict::Alive,
        }
    }

    /// Returns whether the monitor has reported that the connection ended.
    pub(crate) fn is_broken(&mut self) -> bool {
        let mut broken = false;
        while let Some(event) = self.monitored.monitor.event() {
            broken |= event.kind != zmq_sys::ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
        }
        broken
    }

    /// Waits until the socket or its monitor may have something to do.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn ready(&mut self) {
        let MonitoredSocket { socket, monitor } = &mut self.monitored;
        tokio::select! {
            () = socket.ready() => {}
            () = monitor.ready() => {}
        }
    }

    /// Closes the socket and waits until it is gone, so that a client that was shut down leaves
    /// nothing open.
    pub(crate) async fn close(self) {
        self.monitored.close(Duration::ZERO, &self.context).await;
    }
}

/// The waits between attempts to connect, and the metrics of connecting.
#[derive(Debug)]
pub(crate) struct ReconnectPolicy {
    context: Context,
    backoff: saline_protocol::transport::Backoff,
}

impl ReconnectPolicy {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            backoff: context.backoff.clone(),
        }
    }

    /// Waits before the next attempt.
    pub(crate) async fn pause(&mut self) {
        let delay = self.backoff.next_delay();
        self.context.clock.pause(delay).await;
    }

    /// Takes note that a connection is established.
    pub(crate) fn connected(&mut self) {
        self.backoff.reset();
        self.context.count(Metric::Connected);
    }

    /// Returns the deadline of an attempt that begins now and is one of `left` that share `until`.
    pub(crate) fn attempt_deadline(&self, until: Instant, left: usize) -> Instant {
        let now = self.context.clock.now();
        let share = until.saturating_duration_since(now) / u32::try_from(left.max(1)).unwrap_or(1);
        now + share
    }
}
