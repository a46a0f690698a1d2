//! The ZeroMQ transport: libzmq through the `zmq` crate.
//!
//! | file | holds |
//! |---|---|
//! | `server.rs`, `bind.rs` | what starts and ends a server; binding |
//! | `desk.rs`, `exchange.rs` | the task that owns the ROUTER socket; requests up and answers down |
//! | `publisher.rs`, `feed.rs` | the task that owns the XPUB socket; numbers, confirmations, beacons |
//! | `audience.rs` | who is connected to it, and who is cut |
//! | `client.rs` | the task that owns the DEALER socket |
//! | `subscriber.rs`, `filters.rs` | the task that owns a SUB socket; which numbers come next |
//! | `connection.rs` | one attempt to connect: addresses, a fresh socket, when a peer counts as dead |
//! | `numbered.rs` | maps by number |
//! | `frame.rs`, `published.rs`, `numbers.rs` | the bytes on the request connection and on the publication connection |
//! | `joined_requests.rs`, `series.rs` | several small requests, replies or publications in one frame |
//! | `socket.rs`, `monitor.rs` | a socket in an async task, its monitor, how both are closed |
//! | `native.rs` | what the `zmq` crate has no call for; the only `unsafe` |
//!
//! What libzmq does by itself and we do not use: it reconnects and then sends what it had queued,
//! so every connection has a fresh socket that never reconnects; it drops publications silently, so they
//! are numbered (`frame.rs` says how); it closes in the background, so a shutdown waits until the
//! monitor says that the socket is gone. Unbinding is never used: it would close every connection
//! that the listener ever accepted.
//!
//! # Known gaps
//! - ROUTER cannot cut one peer: [`ServerControl::disconnect`] returns false.
//! - libzmq keeps the frames of a message until the last one has come, and no option bounds their
//!   number: a stranger that completes the handshake and then sends one endless message of tiny frames
//!   to the request port makes a server hold 21 bytes for each that it sends, 685 MiB after 32 MiB and
//!   1.3 seconds. Such a peer cannot be told from one that sends a large request, but by looking at
//!   every connection many times a second. (Without a handshake, or with endless subscriptions, it is
//!   cut.)
//! - A stranger can end the process. libzmq 4.3.4 asserts that it never answers a ZMTP heartbeat on a
//!   connection that broke while its input was stopped (`stream_engine_base.cpp:331`), and it does when
//!   it resumes what it had already read. Input stops when as many messages wait as may
//!   (`ZMQ_RCVHWM`), and without that bound a stranger could fill the memory instead. Heartbeats of
//!   our own would do the same, so there are none.
//! - What libzmq queues for a subscriber that does not read is bounded in messages
//!   ([`Limits::subscriber_queue_messages`]), not in bytes: lowering the bound of a live connection
//!   makes libzmq 4.3.4 stop it for good. Over TCP such a connection ends after two link pings.
//! - [`Publisher::subscriptions`] believes what peers say: one that subscribes twice counts twice.
//! - Who vanished without a FIN from the request port is not noticed there; the descriptor is freed
//!   by TCP keep-alive, after about three link pings. At the port for publications it is noticed.
//!
//! [`Limits::subscriber_queue_messages`]: saline_protocol::transport::Limits::subscriber_queue_messages
//! [`ServerControl::disconnect`]: saline_protocol::transport::ServerControl::disconnect
//! [`Publisher::subscriptions`]: saline_protocol::transport::Publisher::subscriptions
mod bind;
mod client;
mod connection;
mod filters;
mod frame;
mod joined_publications;
mod joined_requests;
mod liveness;
mod monitor;
mod native;
mod number_map;
mod options;
mod peer_registry;
mod publish_queue;
mod published;
mod request_exchange;
mod router_task;
mod sequence_numbers;
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

use socket::Shared;

/// Sockets that one context allows unless asked for more: each costs twelve bytes, whether or not it
/// is opened. A client has three and each of its subscriptions three more.
const MAX_SOCKETS: u16 = 16_384;

/// How long after the deadline of a shutdown tasks may still take to notice it.
const GRACE: Duration = Duration::from_secs(1);

/// The ZeroMQ transport, scheme `zeromq`.
pub struct ZeroMq {
    /// Made at first use, so that a process that only lists its transports starts no threads.
    shared: Mutex<Option<Arc<Shared>>>,
    max_sockets: u16,
}

impl ZeroMq {
    /// The transport. A process needs one: its sockets share one libzmq context.
    pub fn new() -> Self {
        Self::with_max_sockets(MAX_SOCKETS)
    }

    /// The transport with room for `max_sockets` libzmq sockets, for processes that hold thousands
    /// of clients.
    pub fn with_max_sockets(max_sockets: u16) -> Self {
        Self {
            shared: Mutex::new(None),
            max_sockets,
        }
    }

    fn shared(&self) -> Result<Arc<Shared>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = &*shared {
            return Ok(Arc::clone(shared));
        }
        let made = Shared::new(self.max_sockets).map_err(|error| {
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
