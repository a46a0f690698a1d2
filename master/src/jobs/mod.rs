//! The job store: jobs, their offers to minions, and returns. One SQLite file, which is the truth
//! about every job; events only report its changes.
//!
//! Every acknowledged change has been committed and synced to the disk. One thread does all
//! writing, and commits whatever is queued at once; another thread reads.

mod error;
mod jid;
mod lookup;
mod next_expiry;
mod offers;
mod prune;
mod publish;
mod returns;
mod rows;
mod schema;
#[cfg(test)]
mod tests;
mod worker;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;
use saline_protocol::message::{Jid, MasterTime};
use saline_protocol::transport::Clock;

pub use error::StoreError;
pub use next_expiry::NextExpiry;
pub use offers::may_become;
pub use publish::{Committed, OUTCOME_KEPT};
pub use returns::ReturnedPage;

use jid::JidSource;
use worker::Worker;

use crate::wire_time::master_time;

/// The job store. Every method may be called from any task at once.
///
/// Dropping the store finishes the queued work and joins its threads, which blocks;
/// [`close`](Self::close) does the same without blocking a runtime.
pub struct JobStore {
    clock: Clock,
    jids: Mutex<JidSource>,
    /// Whether rows of removed jobs are known to be gone.
    swept: AtomicBool,
    /// Dropped before the writer: the last connection to close empties the log.
    reader: Worker,
    writer: Worker,
}

impl JobStore {
    /// Opens the store at `path`; creates the file (0600), its folder (0700) and its tables as
    /// needed. Blocks on the disk, so for the start of a daemon.
    ///
    /// # Errors
    /// When the file cannot be opened, is no store, or was written by a later version.
    pub fn open(path: &Path, clock: Clock) -> Result<Self, StoreError> {
        let writer = schema::open_writer(path)?;
        let last = last_jid(&writer)?;
        let reader = schema::open_reader(path)?;
        let started = |worker| -> Result<Worker, StoreError> {
            Result::map_err(worker, |error| StoreError::io(path, error))
        };
        Ok(Self {
            clock,
            jids: Mutex::new(JidSource::after(last.as_ref())),
            swept: AtomicBool::new(false),
            reader: started(Worker::reader(reader))?,
            writer: started(Worker::writer(writer))?,
        })
    }

    /// Finishes the queued work, refuses later calls with [`StoreError::Closed`], and ends the
    /// threads.
    ///
    /// # Cancel safety
    /// The threads end by themselves when the future is dropped.
    pub async fn close(&self) {
        self.reader.close().await;
        self.writer.close().await;
    }

    /// Returns a new jid: the time, or one above the highest jid so far.
    pub fn next_jid(&self) -> Jid {
        self.jids
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next(self.clock.wall())
    }

    /// Returns the master's time, which the store notes with what it writes.
    fn now(&self) -> MasterTime {
        master_time(self.clock)
    }

    /// Runs `act` on the writer's thread, in a transaction with other calls. `bytes` is about the
    /// size of its data.
    async fn write<T, F>(&self, bytes: usize, act: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.writer.call(bytes, act).await
    }

    /// Runs `act` on the reader's thread.
    async fn read<T, F>(&self, act: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.reader.call(0, act).await
    }
}

impl std::fmt::Debug for JobStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobStore").finish_non_exhaustive()
    }
}

/// Returns the highest jid that is a valid time. A jid that is none was put there from outside.
fn last_jid(connection: &Connection) -> Result<Option<Jid>, StoreError> {
    let mut statement = connection.prepare("SELECT jid FROM jobs ORDER BY jid DESC")?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let last = rows::jid(row, 0)?;
        if jid::to_micros(&last).is_some() {
            return Ok(Some(last));
        }
    }
    Ok(None)
}
