//! The in-memory reference transport: the shortest backend that keeps the whole contract, to read
//! before writing another and to test with.
//!
//! An [`InProc`] is a value that holds a hub; clones share it, and two values know nothing of each
//! other. Inside a hub a server is a name: `host:port` (port 0 takes a number that is free) or a
//! path. Names are compared as text, nothing is resolved and no address is special.
//!
//! What a networked backend does with frames and sockets is a method call under a lock here, so the
//! files `frame.rs` (there is no wire) and `options.rs` (there is nothing to set) are left out. In
//! their place stand `hub.rs`, which is the network, and `state.rs`, the server's state. The others
//! are as in every backend:
//!
//! | file | holds |
//! |---|---|
//! | `hub.rs` | names, and the servers behind them |
//! | `state.rs` | what a server knows: links, unanswered requests |
//! | `server.rs` | how a server starts, hands requests out, and ends |
//! | `publisher.rs` | handing a publication to every subscription that takes it |
//! | `link.rs` | one link as the client holds it |
//! | `client.rs` | requests, and the task that keeps the link up |
//! | `subscriber.rs` | a subscription and its end |
//!
//! It runs on one thread as well as on many, and under `tokio::time::pause`.

mod client;
mod hub;
mod link;
mod publisher;
mod server;
mod state;
mod subscriber;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, Result, ServeAt, Server, Transport,
};

use hub::Hub;

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
    hub: Arc<Hub>,
}

impl InProc {
    /// A transport with a hub of its own.
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
        Capabilities::new(usize::MAX)
            .with_local_endpoints()
            .with_exact_drops()
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        server::serve(&self.hub, at, context)
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        client::connect(&self.hub, endpoint, context)
    }
}

/// Locks `mutex`. Every state in this crate is consistent after each statement, so a panic elsewhere
/// does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
