//! Why a minion cannot start, in one line.

use saline_channel::KeyError;
use saline_daemon::{LockError, TakeOverError};
use saline_messages::IdError;
use saline_messages::random::NoRandomness;
use saline_protocol::transport;

/// Why a minion cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another minion runs with the same configuration, or the lock cannot be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The minion's keys cannot be read or created.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The configuration names an unknown transport.
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// The host's name is not a valid minion id.
    #[error("{0}; give the minion an `id` in its configuration")]
    Id(#[from] IdError),
    /// The spool cannot be read.
    #[error("cannot read the spool {path}: {source}")]
    Spool {
        /// The path of the spool.
        path: String,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// The eventfd that interrupts running functions cannot be created.
    #[error("cannot create an eventfd: {0}")]
    Eventfd(std::io::Error),
    /// State of an earlier version cannot be moved to `state_dir`.
    #[error(transparent)]
    TakeOver(#[from] TakeOverError),
    /// The system has no randomness.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}
