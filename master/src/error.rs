//! Why a master does not start, in one line.

use std::path::PathBuf;

use saline_channel::KeyError;
use saline_daemon::{LockError, TakeOverError};
use saline_messages::random::NoRandomness;
use saline_protocol::transport;

use crate::jobs::StoreError;

/// Why a master does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MasterError {
    /// Another instance runs, or the lock cannot be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The master's own key, or the key store, cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The job store cannot be used.
    #[error(transparent)]
    JobStore(StoreError),
    /// The disk has no room for what a start writes.
    #[error("the disk of the job store (state_dir) is full: make room, and start the master again")]
    DiskFull,
    /// Users of this machine cannot be let into the folder of the access socket.
    #[error("publisher_acl or external_auth names users, and {} cannot be opened to them: {source}", path.display())]
    AccessFolder {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A transport cannot serve.
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// A transport cannot listen.
    #[error("{}{hint}", source.context())]
    Serve {
        /// The error of the transport.
        source: transport::Error,
        /// What to do, if the configuration is to blame.
        hint: String,
    },
    /// State of an earlier version cannot be moved to `state_dir`.
    #[error(transparent)]
    TakeOver(#[from] TakeOverError),
    /// A destination outside of the master cannot be what the configuration says.
    #[error("returner {0}")]
    Returner(String),
    /// `saline-pam` cannot be started.
    #[error("{0}; users log in with it, since external_auth has `pam`")]
    Pam(#[from] saline_pam::PamError),
    /// The system has no randomness.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

impl From<StoreError> for MasterError {
    /// A store that runs goes on by itself when there is room; a start does not wait for that.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full => Self::DiskFull,
            error => Self::JobStore(error),
        }
    }
}
