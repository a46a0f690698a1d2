//! One link of a client: dialling it.

use saline_protocol::transport::{Context, Endpoint, Instant, Result};

use crate::frame::Frame;
use crate::unwritten;

/// A link that stands.
#[derive(Debug)]
pub(crate) struct Link;

impl Link {
    /// Tries every address of `endpoint` once, in its order, until `until`; resolves names each
    /// time; shakes hands.
    ///
    /// # Errors
    /// `Unreachable` when none answers.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays connected.
    pub(crate) async fn dial(
        _endpoint: &Endpoint,
        _context: &Context,
        _until: Instant,
    ) -> Result<Self> {
        Err(unwritten(
            "Link::dial",
            "try the addresses in their order, and say Unreachable when none answers",
            "6. Connecting",
        ))
    }

    /// Sends a frame.
    pub(crate) async fn send(&mut self, frame: &Frame) -> Result<()> {
        frame.encode().map(drop)
    }
}
