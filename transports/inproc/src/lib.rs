//! The in-memory transport: the engine over a pipe that does not leave the process. For tests, also
//! under `tokio::time::pause`, and for whoever embeds both ends.
//!
//! An [`InProc`] is a value that holds a switchboard; clones share it, and two values know nothing of
//! each other. There a server is a name: `host:port` (port 0 takes a number that is free) or a
//! path. Names are compared as text, nothing is resolved and no address is special.
//!
//! | file | holds |
//! |---|---|
//! | `switchboard.rs` | names, and the listeners behind them |
//! | `dial.rs` | connecting |
//! | `listen.rs` | binding and accepting |

mod dial;
mod listen;
mod switchboard;

use std::sync::Arc;

use async_trait::async_trait;
use saline_engine::Connections;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, Result, ServeAt, Server, Transport,
};

use dial::InProcDialer;
use listen::InProcListener;
use switchboard::Switchboard;

/// The in-memory transport, scheme `inproc`.
///
/// ```
/// # use saline_inproc::InProc;
/// # use saline_protocol::transport::*;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let transport = InProc::new();
/// let at = ServeAt { requests: Endpoint::network("inproc", HostPort::new("a", 0)), publications: None };
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
#[derive(Debug, Clone, Default)]
pub struct InProc {
    switchboard: Arc<Switchboard>,
}

impl InProc {
    /// Returns a transport with a switchboard of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Transport for InProc {
    fn scheme(&self) -> &'static str {
        "inproc"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1 << 30)
            .with_local_endpoints()
            .with_exact_drops()
            .with_admission()
            .with_departures()
    }

    async fn serve(&self, at: ServeAt, mut context: Context) -> Result<Server> {
        // A connection has no descriptor.
        context.limits.descriptors = None;
        let (listeners, bound) = self.bind(&at.requests, &context).await?;
        Ok(saline_engine::serve(listeners, bound, None, context))
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        let dialer = self.dialer(endpoint, &context)?;
        saline_engine::connect(dialer, endpoint, context).await
    }
}

impl Connections for InProc {
    type Dialer = InProcDialer;
    type Listener = InProcListener;

    fn dialer(&self, _endpoint: &Endpoint, _context: &Context) -> Result<InProcDialer> {
        Ok(InProcDialer::new(&self.switchboard))
    }

    async fn bind(
        &self,
        endpoint: &Endpoint,
        _context: &Context,
    ) -> Result<(Vec<InProcListener>, Endpoint)> {
        listen::bind(&self.switchboard, endpoint)
    }
}
