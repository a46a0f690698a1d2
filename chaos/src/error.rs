//! What keeps a run from being carried out.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What keeps a run from being carried out. A book that does not balance is no error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChaosError {
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("cannot start {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("cannot find free ports on loopback: {0}")]
    Ports(io::Error),
    #[error("{what} did not happen within {} s; the logs are in {logs}", .within.as_secs())]
    Deadline {
        what: String,
        within: Duration,
        logs: PathBuf,
    },
    #[error("cannot read the job store {path}: {source}")]
    Store {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("the operator's session failed: {0}")]
    Client(#[from] saline_client::ClientError),
    #[error("the configuration that was written is refused: {0}")]
    Config(#[from] saline_config::ConfigError),
    #[error("cannot set up the runtime: {0}")]
    Runtime(io::Error),
    #[error("{0}")]
    Command(String),
}

impl ChaosError {
    /// Returns a function that names the file of an error.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

pub(crate) type Result<T, E = ChaosError> = std::result::Result<T, E>;
