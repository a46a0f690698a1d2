//! A transport for Saline over WebSocket, written outside of its workspace: scheme `ws`.
//!
//! `docs/writing-a-transport.md` follows it. The engine (`saline-engine`) holds everything above a
//! connection: requests, subscriptions, reconnecting, the end. Here is the connection:
//!
//! | file | holds |
//! |---|---|
//! | `lib.rs` | the transport: what it can do, and where both sides begin |
//! | `options.rs` | what can be configured |
//! | `dial.rs` | connecting |
//! | `listen.rs` | binding, accepting, and the upgrade from HTTP |
//! | `pipe.rs` | a WebSocket as a pipe of bytes |
//! | `http_head.rs` | the head of the upgrade, which may come in many pieces |

mod dial;
mod http_head;
mod listen;
mod options;
mod pipe;

use std::sync::Arc;

use async_trait::async_trait;
use saline_engine::Connections;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, OptionSpec, Registry, Result, ServeAt, Server,
    Transport,
};

use dial::WebSocketDialer;
use listen::WebSocketListener;

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
    /// Returns the transport.
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
        // The engine keeps the last three. Local endpoints and TLS are the connection's: not declared.
        Capabilities::new(1 << 30)
            .with_exact_drops()
            .with_admission()
            .with_departures()
    }

    fn options(&self) -> &'static [OptionSpec] {
        options::SPECS
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        let (listeners, bound) = self.bind(&at.requests, &context).await?;
        Ok(saline_engine::serve(listeners, bound, None, context))
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        let dialer = self.dialer(endpoint, &context)?;
        saline_engine::connect(dialer, endpoint, context).await
    }
}

impl Connections for WebSocket {
    type Dialer = WebSocketDialer;
    type Listener = WebSocketListener;

    fn dialer(&self, endpoint: &Endpoint, _: &Context) -> Result<WebSocketDialer> {
        let path = options::path(endpoint);
        Ok(WebSocketDialer { path })
    }

    async fn bind(&self, at: &Endpoint, _: &Context) -> Result<(Vec<WebSocketListener>, Endpoint)> {
        listen::bind(at).await
    }
}

/// Returns the built-in transports and this one: what the three mains of this crate are given.
///
/// ```
/// assert_eq!(saline_websocket::registry().get("ws").unwrap().scheme(), "ws");
/// ```
#[must_use]
pub fn registry() -> Registry {
    saline_transports::registry().with(WebSocket::new())
}
