//! The errors of the job store, and of the store of events.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use saline_messages::Jid;

/// The reason why a store failed: the job store, or that of events. One failed commit answers every caller whose command was in
/// it, so an error can be cloned.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file or its folder cannot be created or opened.
    #[error(
        "{} of the store cannot be read or written: {source}; see that the folder is there and belongs to the master's user",
        path.display()
    )]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the file system.
        source: Arc<io::Error>,
    },
    /// The file exists but is no usable store.
    #[error(
        "the file {} of the store cannot be opened: {source}; see that it belongs to the master's user, or put a copy of it \
         in its place (docs/operating.md)",
        path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        source: Arc<rusqlite::Error>,
    },
    /// The file is the database of another program, or a store from before the first release.
    #[error("{} is not a store of this version of Saline: move it out of the folder", .0.display())]
    NoStore(PathBuf),
    /// Another version wrote the file.
    #[error(
        "the store {} has version {found}, and this program reads version {known}: start the saline-master that \
         wrote it, or move it out of the folder, with what is in it",
        path.display()
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// The version of the file.
        found: i64,
        /// The version that this build reads.
        known: i64,
    },
    /// The system has no randomness, with which secrets are sealed.
    #[error("the secrets of the job cannot be stored: the system has no randomness; try again")]
    NoRandomness,
    /// The disk is full. No part of the command was kept.
    #[error(
        "nothing was stored, because the disk of the job store (state_dir) is full; the master goes on by itself when there is room"
    )]
    Full,
    /// Another job has the same jid.
    #[error("job {0} exists already, and nothing was published: choose another --jid, or none")]
    JidTaken(Jid),
    /// The store holds a value that no version writes: the file was changed from outside.
    #[error("the store is damaged: expected {what}, found {found}")]
    Corrupt {
        /// The expected value.
        what: &'static str,
        /// The value in the store.
        found: String,
    },
    /// A file of the store cannot be read when the master starts.
    #[error(
        "the file {} of the store cannot be read: {source}; put a copy of it in its place (docs/operating.md), or move it \
         away, without what is in it",
        path.display()
    )]
    UnreadableFile {
        /// The file that cannot be read.
        path: PathBuf,
        /// The error of reading it.
        source: Box<StoreError>,
    },
    /// SQLite failed. No part of the command was kept.
    #[error(
        "SQLite failed in the store: {0}; nothing was stored, and the order may be given again"
    )]
    Database(#[source] Arc<rusqlite::Error>),
    /// Too many minions of too many jobs are under way.
    #[error(
        "no job can be published now: open jobs have {offers} minions, the most that a master keeps; those with the most \
         jobs are {busiest}: wait until some jobs end, cancel what has not begun with `saline-run jobs.cancel`, or delete \
         the key of a minion that does not end its jobs"
    )]
    TooManyOpen {
        /// The number of minions in all open jobs.
        offers: usize,
        /// The minions that have the most open jobs, with the numbers of these jobs.
        busiest: String,
    },
    /// The partition that the command is about was pruned.
    #[error("the job was removed meanwhile, because of keep_jobs_seconds or job_store_size")]
    Removed,
    /// The store was closed.
    #[error("the store is closed, since the master stops: give the order again when it runs")]
    Closed,
}

impl StoreError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source: Arc::new(source),
        }
    }

    /// Names the file that a start could not read, unless the error names it already.
    pub(crate) fn of_file(self, path: &Path) -> Self {
        match self {
            Self::Corrupt { .. } | Self::Database(_) => Self::UnreadableFile {
                path: path.to_owned(),
                source: Box::new(self),
            },
            other => other,
        }
    }

    pub(crate) fn open(path: &Path, source: rusqlite::Error) -> Self {
        Self::Open {
            path: path.to_owned(),
            source: Arc::new(source),
        }
    }

    pub(crate) fn corrupt(what: &'static str, found: impl Into<String>) -> Self {
        Self::Corrupt {
            what,
            found: found.into(),
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        // The second is of the memory that a log shares, which is a file too.
        let shared =
            error.sqlite_extended_error_code() == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE);
        if shared || error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) {
            Self::Full
        } else {
            Self::Database(Arc::new(error))
        }
    }
}
