//! The ZeroMQ transport: libzmq through the `zmq` crate.
//!
//! | file | holds |
//! |---|---|
//! | `server.rs`, `bind.rs` | starting and ending a server; binding |
//! | `router_task.rs` | the task that owns the ROUTER socket: requests, answers, peers that have gone |
//! | `request_exchange.rs` | the queues of requests and answers between that task and the handlers |
//! | `request_line.rs` | requests that wait while as many as may be are unanswered |
//! | `parked_answers.rs` | answers that wait for clients that do not read |
//! | `request_parts.rs` | requests that are too large for one message |
//! | `peer_registry.rs` | which peers are connected and admitted, shared with the server's handles |
//! | `xpub_task.rs` | the task that owns the XPUB socket |
//! | `numbering.rs`, `number_set.rs` | publications in front of it: sequence numbers, confirmations, beacons |
//! | `subscriber_liveness.rs` | the connections of the XPUB socket, and which of them are cut |
//! | `accepted.rs` | the connections of either socket that nobody has admitted, bounded by descriptors |
//! | `client.rs` | the task that owns a DEALER socket |
//! | `subscriber.rs`, `filters.rs` | the task that owns a SUB socket; which sequence numbers come next |
//! | `connection.rs` | one attempt to connect: addresses, a fresh socket |
//! | `liveness.rs` | when a peer counts as dead, at both ends |
//! | `frame.rs`, `joined_requests.rs` | the bytes at the request port |
//! | `publication_wire.rs`, `joined_publications.rs` | the bytes at the publication port |
//! | `socket.rs`, `monitor.rs` | a socket in an async task, its monitor, how both are closed |
//! | `number_map.rs` | maps by number |
//! | `options.rs` | the options in the configuration |
//! | `fuzzing.rs` | the decoders of both, for the fuzz targets |
//! | `native.rs` | what the `zmq` crate has no call for; the only `unsafe` |
//!
//! Pending requests, departures, timers of silence and the end of tasks are the engine's. Three
//! features of libzmq are not used: it reconnects and then sends what it had queued, so every
//! connection has a fresh socket that never reconnects; it drops publications silently, so they are
//! numbered (`publication_wire.rs` says how); it closes in the background, so a shutdown waits until the
//! monitor says that the socket is gone. Unbinding is never used: it would close every connection
//! that the listener ever accepted.
//!
//! # Departures
//! ROUTER does not say which peer has left: the option that would, `ZMQ_ROUTER_NOTIFY`, is a draft
//! that released builds of libzmq leave out. The monitor names the descriptor of a connection that
//! ended, which the system uses again for the next one. So the events are read before a peer that says
//! hello is entered under its descriptor, and each event is about the peer that is entered. Should a
//! hello be read after the end of its own connection, the peer is found to be gone when the server
//! next sends to it: an admitted peer that is silent for one ping is asked for a sign of life. After
//! two pings of silence it is cut, over TCP and while the server reads requests; while as many requests
//! wait as may, silence says nothing.
//!
//! # libzmq is mended
//! `build.rs` compiles some files of libzmq 4.3.4 again, with these changes, on Linux:
//! - A heartbeat that is handled after its connection broke is not answered. libzmq asserts that there
//!   is a connection to answer on, and a stranger could end the process: it sends more messages than may
//!   wait (`ZMQ_RCVHWM`), which stops the reading, a heartbeat behind them, and resets the connection. No
//!   option keeps libzmq from answering.
//! - A message of several frames is a violation. libzmq keeps frames until the last one has come, and no
//!   option bounds their number: one endless message of tiny frames made a server hold 21 bytes for each
//!   that was sent. No message of this transport has more than one.
//! - A heartbeat that is too short is not answered with the bytes that lie behind it.
//! - A connection over TCP that would take one of the last 64 descriptors of the process is closed as it is accepted.
//! - Every descriptor is opened with close-on-exec, so that no child process inherits one.
//!
//! libzmq 4.3.5, which is under the MPL-2.0, is not used: the newest `zmq-sys`, 0.12, asks for `zeromq-src` 0.2, whose last
//! release has 4.3.4, and one package of a program alone may link `zmq`. Replacing it by `[patch]` would hold in this
//! workspace, and not for whoever builds this crate from a registry.
//!
//! # Known gaps
//! - Not all limits before a peer is admitted ([`Capabilities::admission`]): libzmq has one `ZMQ_MAXMSGSIZE` for all
//!   connections of a socket, which is the size of a part here, and does not say what a connection has sent of a
//!   message that is not complete. What strangers send in parts is bounded together; their connections have no time.
//! - What libzmq queues for a subscriber that does not read is bounded in messages
//!   ([`Limits::subscriber_queue_messages`]), not in bytes: lowering the bound of a live connection
//!   makes libzmq 4.3.4 stop it for good. Over TCP such a connection ends after two link pings.
//! - libzmq bounds the answers that it queues for a client that does not read in messages too
//!   ([`Limits::requests_in_flight`] and a few more). Answers that wait beyond them are bounded in bytes.
//! - [`Publisher::subscriptions`] believes what peers say: one that subscribes twice counts twice.
//! - A peer at the request port that was not admitted and vanished without a FIN is not noticed; its
//!   descriptor is freed by TCP keep-alive, after about three link pings. A local peer whose process
//!   is stopped and not ended is not noticed either.
//!
//! [`Capabilities::admission`]: saline_protocol::transport::Capabilities::admission
//! [`Limits::requests_in_flight`]: saline_protocol::transport::Limits::requests_in_flight
//! [`Limits::subscriber_queue_messages`]: saline_protocol::transport::Limits::subscriber_queue_messages
//! [`Publisher::subscriptions`]: saline_protocol::transport::Publisher::subscriptions
mod accepted;
mod bind;
mod client;
mod connection;
mod connection_table;
mod filters;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod joined_publications;
mod joined_requests;
mod liveness;
mod monitor;
mod native;
mod number_map;
mod number_set;
mod numbering;
mod options;
mod parked_answers;
mod peer_registry;
mod publication_wire;
mod request_exchange;
mod request_line;
mod request_parts;
mod router_task;
mod server;
mod socket;
mod subscriber;
mod subscriber_liveness;
mod xpub_task;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, Error, ErrorKind, OptionSpec, Result, ServeAt, Server,
    Transport,
};

use socket::SharedContext;

/// Sockets that one context allows unless asked for more: each costs twelve bytes, whether or not it
/// is opened. A client has three and each of its subscriptions three more.
const MAX_SOCKETS: u16 = 16_384;

/// How long after the deadline of a shutdown tasks may still take to notice it.
const GRACE: Duration = Duration::from_secs(1);

/// The ZeroMQ transport, scheme `zeromq`.
pub struct ZeroMq {
    /// Created at first use, so that a process that only lists its transports starts no threads.
    shared: Mutex<Option<Arc<SharedContext>>>,
    max_sockets: u16,
}

impl ZeroMq {
    /// Returns the transport. A process needs one: its sockets share one libzmq context.
    pub fn new() -> Self {
        Self::with_max_sockets(MAX_SOCKETS)
    }

    /// Returns the transport with room for `max_sockets` libzmq sockets, for processes that hold thousands
    /// of clients.
    pub fn with_max_sockets(max_sockets: u16) -> Self {
        Self {
            shared: Mutex::new(None),
            max_sockets,
        }
    }

    fn shared(&self) -> Result<Arc<SharedContext>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = &*shared {
            return Ok(Arc::clone(shared));
        }
        let made = SharedContext::new(self.max_sockets).map_err(|error| {
            Error::new(ErrorKind::Refused, "cannot start libzmq").with_source(error)
        })?;
        Ok(Arc::clone(shared.insert(Arc::new(made))))
    }
}

impl Default for ZeroMq {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ZeroMq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZeroMq").finish_non_exhaustive()
    }
}

#[async_trait]
impl Transport for ZeroMq {
    fn scheme(&self) -> &'static str {
        "zeromq"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1 << 30)
            .with_local_endpoints()
            .with_publications_apart()
            .with_exact_drops()
            .with_departures()
    }

    fn options(&self) -> &'static [OptionSpec] {
        options::SPECS
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        server::serve(&self.shared()?, at, context).await
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        client::connect(self.shared()?, endpoint, context).await
    }
}
