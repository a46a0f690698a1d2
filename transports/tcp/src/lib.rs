//! The TCP transport: one connection a client, which carries requests and publications alike, with
//! TLS where `ssl` asks for it, and over Unix sockets for local endpoints.
//!
//! The engine (`saline-engine`) holds everything above a connection. Here are the connections:
//!
//! | file | holds |
//! |---|---|
//! | `dial.rs` | connecting |
//! | `listen.rs` | binding and accepting |
//! | `pipe.rs` | a TCP connection, a Unix socket or TLS over TCP as one pipe |
//! | `tls.rs` | TLS around a connection |
//! | `options.rs` | the options of the section `tcp` |

mod dial;
mod listen;
mod options;
mod pipe;
mod tls;

use std::sync::Arc;

use async_trait::async_trait;
use saline_engine::Connections;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, OptionSpec, Result, ServeAt, Server, Transport,
};

use dial::TcpDialer;
use listen::TcpTransportListener;

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
    /// Returns the transport.
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
            .with_local_users()
            .with_encryption()
            .with_exact_drops()
            .with_admission()
            .with_departures()
    }

    fn options(&self) -> &'static [OptionSpec] {
        options::SPECS
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        let acceptor = tls::Acceptor::new(&at.requests, &context)?;
        let certificate = acceptor.as_ref().map(|acceptor| acceptor.certificate);
        let (listeners, bound) = listen::bind(&at.requests, acceptor, &context).await?;
        Ok(saline_engine::serve(listeners, bound, certificate, context))
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        let dialer = self.dialer(endpoint, &context)?;
        saline_engine::connect(dialer, endpoint, context).await
    }
}

impl Connections for Tcp {
    type Dialer = TcpDialer;
    type Listener = TcpTransportListener;

    fn dialer(&self, endpoint: &Endpoint, context: &Context) -> Result<TcpDialer> {
        TcpDialer::new(endpoint, context)
    }

    async fn bind(
        &self,
        endpoint: &Endpoint,
        context: &Context,
    ) -> Result<(Vec<TcpTransportListener>, Endpoint)> {
        let acceptor = tls::Acceptor::new(endpoint, context)?;
        listen::bind(endpoint, acceptor, context).await
    }
}
