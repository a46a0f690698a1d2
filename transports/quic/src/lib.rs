//! The QUIC transport: quinn and rustls.
//!
//! | file | holds |
//! |---|---|
//! | `server.rs` | how a server starts and ends |
//! | `inbox.rs` | requests between the connections and whoever handles them |
//! | `state.rs` | what all parts of a server share |
//! | `connection.rs` | one connection, as the server holds it |
//! | `publisher.rs` | publishing |
//! | `index.rs` | who asked for what |
//! | `log.rs` | publications, written down once for all who take them |
//! | `queue.rs` | what waits to be written on a connection |
//! | `client.rs` | a client, and the task that keeps its link up |
//! | `line.rs` | requests and their outcomes |
//! | `link.rs` | one link, as the client holds it |
//! | `subscriber.rs` | subscriptions as the client holds them |
//! | `sorter.rs` | order within a topic, although what is large travels apart |
//! | `frame.rs` | the bytes on the wire |
//! | `batch.rs` | frames that wait to be written |
//! | `certificate.rs` | certificates, and what TLS is asked to do with them |
//! | `socket.rs` | UDP sockets, and what QUIC is told about the network |
//! | `runtime.rs` | what quinn runs on: the context's tasks |
//! | `options.rs` | what can be configured |
//!
//! A client has one connection for both roles. Small messages share long-lived streams; a large
//! reply or publication has a stream of its own and delays nothing but what was published after it
//! on its own topic. Requests share one stream whatever their size, because they are handed out in
//! the order in which they were made.
//!
//! The link is always encrypted, and unless `ssl` says otherwise nobody is authenticated by it: a
//! server shows a self-signed certificate that it makes when it starts, and a client takes any. The
//! channel above proves who the peer is and that it holds this very certificate
//! ([`Client::peer_certificate`] and [`ServerControl::certificate`] are the same bytes at both ends).
//! With `ssl` certificates come from files and are held against authorities, at either end; names in
//! them are not compared.
//!
//! A server that ends says goodbye on every connection after the last byte, and the client, which
//! alone knows when it has read everything, closes.
//!
//! [`Client::peer_certificate`]: saline_protocol::transport::Client::peer_certificate
//! [`ServerControl::certificate`]: saline_protocol::transport::ServerControl::certificate

mod batch;
mod certificate;
mod client;
mod connection;
mod frame;
mod inbox;
mod index;
mod line;
mod link;
mod log;
mod options;
mod publisher;
mod queue;
mod runtime;
mod server;
mod socket;
mod sorter;
mod state;
mod subscriber;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, OptionSpec, Result, ServeAt, Server, Transport,
};

/// The QUIC transport, scheme `quic`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quic;

impl Quic {
    /// The transport. It holds nothing: every server and every client has what it needs.
    pub fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Transport for Quic {
    fn scheme(&self) -> &'static str {
        "quic"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1 << 30)
            .with_encryption()
            .with_exact_drops()
    }

    fn options(&self) -> &'static [OptionSpec] {
        options::SPECS
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        server::serve(at, context).await
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        client::connect(endpoint, context).await
    }
}

/// Locks `mutex`. Every state in this crate is consistent after each statement, so a panic elsewhere
/// does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that are written together at most.
const BATCH: usize = 64 * 1024;

/// Waits as long as each turn of the other tasks adds to what `waiting` counts in bytes, up to a
/// batch. A packet costs much more than a message in it, and whoever writes the first of a burst is
/// woken before the others have written theirs.
///
/// # Cancel safety
/// Nothing is lost when the future is dropped.
async fn gather(waiting: impl Fn() -> usize) {
    let mut before = 0;
    loop {
        let now = waiting();
        if now <= before || now >= BATCH {
            return;
        }
        before = now;
        tokio::task::yield_now().await;
    }
}
