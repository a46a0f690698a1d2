//! The job store: what was published, to whom it was offered, and what came back. One SQLite file,
//! and the truth about every job; the event bus is only its news.
//!
//! Whatever is acknowledged has been committed and synced to the disk. All writing is done by one
//! thread, which commits whatever is queued at once; reading is done by another.

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
/// Dropping it does what is queued and joins its threads, which blocks; [`close`](Self::close)
/// does the same without blocking a runtime.
pub struct JobStore {
    clock: Clock,
    jids: Mutex<JidSource>,
    /// Whether no rows of removed jobs can be left.
    swept: AtomicBool,
    /// Before the writer, which empties the log when it is the last.
    reader: Worker,
    writer: Worker,
}

impl JobStore {
    /// Opens the store at `path`, making the file (0600), its folder (0700) and its tables as
    /// needed. Blocks on the disk: for the start of a daemon.
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

    /// Does what is queued, refuses what comes later with [`StoreError::Closed`], and ends the
    /// threads.
    ///
    /// # Cancel safety
    /// When it is dropped the threads end by themselves.
    pub async fn close(&self) {
        self.reader.close().await;
        self.writer.close().await;
    }

    /// A new jid: the time, made to rise above every jid given out or stored before.
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

    /// Has the writer do something, in a transaction with others. `bytes` is about what it carries.
    async fn write<T, F>(&self, bytes: usize, act: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.writer.call(bytes, act).await
    }

    /// Has the reader do something.
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

/// The highest jid that is a time. There is no other unless somebody put it there.
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
