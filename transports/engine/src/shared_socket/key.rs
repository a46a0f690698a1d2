//! What a connection is known by.

use std::net::SocketAddr;

/// The key of a connection in a table: its peer's address, and the number that its client chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) address: SocketAddr,
    pub(super) client: u64,
}
