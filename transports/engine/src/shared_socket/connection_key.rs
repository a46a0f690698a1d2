//! The key by which the tables of a socket find a connection.

use std::net::SocketAddr;

/// The key of a connection: its peer's address, and the number that its client chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ConnectionKey {
    pub(super) address: SocketAddr,
    pub(super) client: u64,
}
