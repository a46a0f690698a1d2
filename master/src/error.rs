//! Why a master does not start, in one line.

use saline_daemon::LockError;
use saline_protocol::channel::KeyError;
use saline_protocol::random::NoRandomness;
use saline_protocol::transport;

use crate::jobs::StoreError;

/// Why a master does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MasterError {
    /// Another instance runs, or the lock cannot be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A key of its own, or the store of keys, cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store of jobs cannot be used.
    #[error(transparent)]
    JobStore(#[from] StoreError),
    /// A transport does not serve.
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// No randomness.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}
