//! The TCP transport: length-prefixed frames over one connection a client, which serves requests and
//! publications alike; the same code over Unix sockets for local endpoints.
//!
//! | file | holds |
//! |---|---|
//! | `frame.rs` | the bytes on the wire |
//! | `decode.rs` | cutting what arrives into frames, whoever sent it |
//! | `batch.rs` | frames put together, so that one call of the system sends many |
//! | `stream.rs` | TCP, Unix socket or TLS as one type; resolving, connecting, listening |
//! | `tls.rs` | TLS round a connection, where `ssl` asks for it |
//! | `local.rs` | Unix sockets: who may reach them, what becomes of their files |
//! | `server.rs` | a server: its parts, and how it ends |
//! | `accept.rs` | taking connections, and their handshake |
//! | `connection.rs` | one connection on the serving side: what waits to be written |
//! | `peer.rs` | the two tasks that talk to one client |
//! | `inbox.rs` | requests between the connections and whoever handles them |
//! | `publisher.rs` | who is connected and who takes what; publishing |
//! | `log.rs` | publications that many connections take, written down once |
//! | `interest.rs` | who takes a topic |
//! | `client.rs` | the client, and the task that keeps its link up |
//! | `link.rs` | one link of a client: dialling, greeting, its reader and its writer |
//! | `line.rs` | requests and their outcomes; `slots.rs` where each of them is |
//! | `subscriber.rs` | subscriptions of a client, over whichever link stands |
//! | `lifetime.rs` | the tasks of one client or server, and their graceful end |
//! | `options.rs` | what can be configured |
//!
//! Readers and writers are tasks of their own, because one that alternates between both stands still
//! as soon as both directions are full. A writer puts together whatever is there, up to 128 KiB, and
//! writes it at once. Both sides say something when they have been idle for most of a ping interval,
//! so that neither has to answer, and a peer that was silent for two is cut by both.
//!
//! A subscriber's losses are counted where its messages are dropped: by the server when the
//! connection does not take them fast enough, by the client when the subscriber does not. Both
//! queues are bounded by the same limits.
mod accept;
mod batch;
mod client;
mod connection;
mod decode;
mod frame;
mod inbox;
mod interest;
mod line;
mod link;
mod local;
mod log;
mod options;
mod peer;
mod publisher;
mod server;
mod slots;
mod stream;
mod subscriber;
mod tls;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, Error, ErrorKind, OptionSpec, Result, ServeAt, Server,
    Transport,
};

/// The TCP transport, scheme `tcp`.
///
/// ```
/// # use saline_tcp::Tcp;
/// # use saline_protocol::transport::*;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let transport = Tcp::new();
/// let anywhere = Endpoint::network("tcp", HostPort::new("127.0.0.1", 0));
/// let at = ServeAt { requests: anywhere, publications: None };
/// let mut server = transport.serve(at, Context::default()).await?;
/// let client = transport.connect(&server.bound.requests, Context::default()).await?;
/// let ask = client.request("ping".into(), Clock.after(std::time::Duration::from_secs(1)));
/// let answer = async {
///     if let Some(request) = server.requests.next().await {
///         let _ = request.reply.send("pong".into());
///     }
/// };
/// assert_eq!(tokio::join!(ask, answer).0?, "pong");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Tcp {
    /// The transport.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Transport for Tcp {
    fn scheme(&self) -> &'static str {
        "tcp"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1 << 30)
            .with_local_endpoints()
            .with_encryption()
            .with_exact_drops()
    }

    fn options(&self) -> &'static [OptionSpec] {
        options::SPECS
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        if at.publications.is_some() {
            return Err(Error::new(
                ErrorKind::Config,
                "TCP publishes where requests go, so no other place can be given",
            ));
        }
        server::serve(&at.requests, context).await
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        client::connect(endpoint, context).await
    }
}

/// How long after the deadline of a shutdown tasks may still take to notice it.
const GRACE: Duration = Duration::from_secs(1);

/// Locks `mutex`. Every state in this crate is consistent after each statement, so a panic elsewhere
/// does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
