//! Reads jobs.

use rusqlite::params;
use saline_protocol::message::{Jid, Job};

use super::{JobStore, StoreError, rows};

/// The largest number of jobs in one list.
const LIST_JOBS: u32 = 1_000;

/// The largest size of one list in bytes, except for a single larger job.
const LIST_BYTES: usize = 4 * 1024 * 1024;

impl JobStore {
    /// Returns a job; none if there is no such job.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn job(&self, jid: &Jid) -> Result<Option<Job>, StoreError> {
        let jid = jid.clone();
        self.read(move |connection| {
            let mut statement = connection
                .prepare_cached(&format!("SELECT {} FROM jobs WHERE jid = ?1", rows::JOB))?;
            let mut found = statement.query([jid.as_str()])?;
            found.next()?.map(rows::job).transpose()
        })
        .await
    }

    /// Returns the jobs before `before`, or the last ones, the newest first: at most `limit`, at
    /// most 1,000 and about 4 MiB. An empty list is the end.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn list(&self, limit: u32, before: Option<Jid>) -> Result<Vec<Job>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {} FROM jobs WHERE jid < ?1 ORDER BY jid DESC LIMIT ?2",
                rows::JOB
            ))?;
            // A letter sorts after every digit.
            let before = before.as_ref().map_or("a", Jid::as_str);
            let mut found = statement.query(params![before, limit.min(LIST_JOBS)])?;
            rows::jobs(&mut found, LIST_BYTES)
        })
        .await
    }
}
