//! Cancels what no minion has begun yet.

use std::sync::{Arc, Mutex};

use rusqlite::{Connection, params};
use saline_messages::{Jid, MAX_ACCOUNTS, MinionId};

use super::{JobStore, StoreError, jid, lock};
use crate::disk::columns;
use crate::disk::writer::StoreFile;

impl JobStore {
    /// Cancels a job: it is handed over to nobody any more, and those to which it was handed over are told
    /// with their next heartbeat. Returns the minions for which it was queued, which are cancelled now;
    /// none when there is no such job.
    ///
    /// # Errors
    /// When SQLite fails; nothing was cancelled.
    ///
    /// # Cancel safety
    /// A dropped call may have cancelled the job or not. It may be repeated.
    pub async fn cancel(&self, jid: &Jid) -> Result<Option<Vec<MinionId>>, StoreError> {
        let Some(job) = jid::to_micros(jid) else {
            return Ok(None);
        };
        let Some(start) = self.partitions.holding(job) else {
            return Ok(None);
        };
        let now = self.now();
        let act = move |connection: &Connection| {
            let changed = connection
                .prepare_cached(
                    "UPDATE jobs SET cancelled = iif(cancelled > 0, cancelled, ?2) WHERE jid = ?1",
                )?
                .execute(params![job, columns::from_time(now)])?;
            Ok(changed > 0)
        };
        let open = Arc::clone(&self.open);
        let queued = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&queued);
        let settled = move |result: &Result<bool, StoreError>| {
            if let Ok(true) = result {
                *lock(&told) = lock(&open).cancel(job, now);
            }
        };
        let cancelled = self
            .writer
            .call(StoreFile::Partition(start), 0, act, settled);
        match cancelled.await {
            Err(StoreError::Removed) | Ok(false) => Ok(None),
            Ok(true) => Ok(Some(std::mem::take(&mut *lock(&queued)))),
            Err(error) => Err(error),
        }
    }

    /// Returns the jobs that were cancelled after they were handed over to a minion, and that it has not
    /// accounted for.
    pub fn cancelled_of(&self, minion: &MinionId) -> Vec<Jid> {
        let jobs = lock(&self.open).cancelled_of(minion, MAX_ACCOUNTS);
        jobs.into_iter().map(jid::from_micros).collect()
    }
}
