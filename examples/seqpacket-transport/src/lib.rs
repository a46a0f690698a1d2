//! A transport for Saline over Unix sockets of packets (`SOCK_SEQPACKET`), written outside of its
//! workspace: scheme `seqpacket`. Its endpoints are paths.
//!
//! The engine (`saline-engine`) holds everything above a connection. Here is the connection:
//!
//! | file | holds |
//! |---|---|
//! | `lib.rs` | the transport: what it can do, and where both sides begin |
//! | `socket.rs` | making sockets of packets |
//! | `dial.rs` | connecting |
//! | `listen.rs` | binding and accepting |
//! | `pipe.rs` | a connection of packets as a pipe of bytes |

mod dial;
mod listen;
mod pipe;
mod socket;

use std::sync::Arc;

use async_trait::async_trait;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, Result, ServeAt, Server, Transport,
};

use dial::SeqPacketDialer;

/// The transport over Unix sockets of packets, scheme `seqpacket`.
///
/// ```
/// # use saline_seqpacket::SeqPacket;
/// # use saline_protocol::transport::*;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("master.sock");
/// let transport = SeqPacket::new();
/// let at = ServeAt { requests: Endpoint::local("seqpacket", path), publications: None };
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
pub struct SeqPacket;

impl SeqPacket {
    /// Returns the transport.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Transport for SeqPacket {
    fn scheme(&self) -> &'static str {
        "seqpacket"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1 << 30)
            .with_local_endpoints()
            .with_exact_drops()
            .with_admission()
            .with_departures()
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        let listener = listen::bind(&at.requests).await?;
        Ok(saline_engine::serve(
            vec![listener],
            at.requests,
            None,
            context,
        ))
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        saline_engine::connect(SeqPacketDialer, endpoint, context).await
    }
}
