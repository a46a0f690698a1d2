//! A transport for Saline over WebSocket, written outside of its workspace: scheme `ws`.
//!
//! It is the example that `docs/writing-a-transport.md` follows: everything that the contract asks
//! of a backend, in the plainest form. One WebSocket a client carries requests, replies and
//! publications; each is one binary message.
//!
//! | file | holds |
//! |---|---|
//! | `lib.rs` | the transport: what it can do, and where both sides begin |
//! | `options.rs` | what can be configured |
//! | `frame.rs` | what is in a binary message |
//! | `link.rs` | a WebSocket, how it is dialled, and when it counts as dead |
//! | `lifetime.rs` | the tasks of one client or server, and their graceful end |
//! | `server.rs` | what listens, whom it takes, how requests are handed out |
//! | `connection.rs` | one connection on the serving side: reading and writing |
//! | `publisher.rs` | who is connected and who takes what |
//! | `client.rs` | the client, and the task that keeps its link up |
//! | `line.rs` | the requests of a client and their outcomes |
//! | `subscriber.rs` | the subscriptions of a client |

mod client;
mod connection;
mod frame;
mod line;
mod link;
mod options;
mod publisher;
mod server;
mod subscriber;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, OptionSpec, Registry, Result, ServeAt, Server,
    Transport,
};

/// The WebSocket transport, scheme `ws`.
///
/// ```
/// # use saline_websocket::WebSocket;
/// # use saline_protocol::transport::*;
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// let transport = WebSocket::new();
/// let anywhere = Endpoint::network("ws", HostPort::new("127.0.0.1", 0));
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
pub struct WebSocket;

impl WebSocket {
    /// The transport.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Transport for WebSocket {
    fn scheme(&self) -> &'static str {
        "ws"
    }

    fn capabilities(&self) -> Capabilities {
        // No local endpoints, no TLS, publications where requests go: what is not said is not there.
        Capabilities::new(1 << 30).with_exact_drops()
    }

    fn options(&self) -> &'static [OptionSpec] {
        options::SPECS
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        server::serve(&at.requests, context).await
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        client::connect(endpoint, context).await
    }
}

/// The built-in transports and this one: what the three mains of this crate are given.
///
/// ```
/// assert_eq!(saline_websocket::registry().get("ws").unwrap().scheme(), "ws");
/// ```
#[must_use]
pub fn registry() -> Registry {
    saline_transports::registry().with(WebSocket::new())
}

/// Locks `mutex`. Every state in this crate is consistent after each statement, so a panic elsewhere
/// does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
