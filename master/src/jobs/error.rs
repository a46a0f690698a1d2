//! Why the store could not.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use saline_protocol::message::Jid;

/// Why the job store could not do what it was asked to. One failed commit answers every caller
/// whose command was in it, so an error can be cloned.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file or its folder cannot be made or opened.
    #[error("the job store {}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
    /// The file is there but cannot be used as a store.
    #[error("the job store {}: {source}", path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Arc<rusqlite::Error>,
    },
    /// A later version has written it.
    #[error("the job store has version {found}, and this program knows versions up to {known}")]
    TooNew {
        /// The version of the file.
        found: i64,
        /// The last version that this build knows.
        known: i64,
    },
    /// There is no room on the disk. Nothing of the command was kept.
    #[error("the disk of the job store is full")]
    Full,
    /// Another job has this id.
    #[error("there is a job {0} already")]
    JidTaken(Jid),
    /// What the store holds is not what was written: somebody else changed it.
    #[error("the job store holds what is not {what}: {found}")]
    Corrupt {
        /// What was expected.
        what: &'static str,
        /// What is there.
        found: String,
    },
    /// SQLite failed. Nothing of the command was kept.
    #[error("the job store: {0}")]
    Database(#[source] Arc<rusqlite::Error>),
    /// The store was closed.
    #[error("the job store is closed")]
    Closed,
}

impl StoreError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source: Arc::new(source),
        }
    }

    pub(super) fn open(path: &Path, source: rusqlite::Error) -> Self {
        Self::Open {
            path: path.to_owned(),
            source: Arc::new(source),
        }
    }

    pub(super) fn corrupt(what: &'static str, found: impl Into<String>) -> Self {
        Self::Corrupt {
            what,
            found: found.into(),
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) {
            Self::Full
        } else {
            Self::Database(Arc::new(error))
        }
    }
}
