//! A transport for Saline over UDP, written outside of its workspace: scheme `udp`.
//!
//! The engine (`saline-engine`) holds everything above a connection, and its `shared_socket` makes connections of the
//! datagrams of one socket: cookies, numbers, acknowledgements, windows, ends. Here is the socket:
//!
//! | file | holds |
//! |---|---|
//! | `lib.rs` | the transport: what it can do, and where both sides begin |
//! | `connection.rs` | dialling and binding |
//! | `socket.rs` | opening sockets |

mod connection;
mod socket;

use std::sync::Arc;

use async_trait::async_trait;
use saline_engine::Connections;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, Result, ServeAt, Server, Transport,
};

/// The transport over UDP, scheme `udp`.
///
/// ```
/// # use saline_udp::Udp;
/// # use saline_protocol::transport::*;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let transport = Udp::new();
/// let requests = Endpoint::network("udp", HostPort::new("127.0.0.1", 0));
/// let at = ServeAt { requests, publications: None };
/// let mut server = transport.serve(at, Context::default()).await?;
/// let client = transport.connect(&server.bound.requests, Context::default()).await?;
/// let ask = client.request("ping".into(), Clock.after(std::time::Duration::from_secs(5)));
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
pub struct Udp;

impl Udp {
    /// Returns the transport.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Transport for Udp {
    fn scheme(&self) -> &'static str {
        "udp"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1 << 30)
            .with_shared_socket()
            .with_exact_drops()
            .with_admission()
            .with_departures()
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
