//! Jobs are found again.

use rusqlite::params;
use saline_protocol::message::{Jid, Job};

use super::{JobStore, StoreError, rows};

/// Jobs in one list.
const LIST_JOBS: u32 = 1_000;

/// Bytes in one list, but for a single job that is larger.
const LIST_BYTES: usize = 4 * 1024 * 1024;

impl JobStore {
    /// A job. None when there is no such job.
    ///
    /// # Errors
    /// What SQLite says.
    ///
    /// # Cancel safety
    /// Nothing is changed.
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

    /// The jobs before `before`, or the last ones: the newest first, at most `limit` of them and
    /// at most 1,000 and about 4 MiB. The list is at its end when it is empty.
    ///
    /// # Errors
    /// What SQLite says.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn list(&self, limit: u32, before: Option<Jid>) -> Result<Vec<Job>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {} FROM jobs WHERE jid < ?1 ORDER BY jid DESC LIMIT ?2",
                rows::JOB
            ))?;
            // A letter stands after every digit.
            let before = before.as_ref().map_or("a", Jid::as_str);
            let mut found = statement.query(params![before, limit.min(LIST_JOBS)])?;
            rows::jobs(&mut found, LIST_BYTES)
        })
        .await
    }
}
