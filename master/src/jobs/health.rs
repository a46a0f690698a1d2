//! The figures of the job store that `--health`, the metrics and the report on SIGUSR1 have.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use saline_messages::{MinionJobState, ReturnVerdict};

use super::{JobStore, StoreError, lock};
use crate::disk::writer::{Commits, StoreFile};

/// What the store has taken since it was opened.
#[derive(Debug, Default)]
pub(crate) struct StoreCounts {
    published: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
}

impl StoreCounts {
    /// Counts a job that was stored.
    pub(super) fn job_published(&self) {
        self.published.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a return, if this verdict says that it was stored.
    pub(super) fn return_judged(&self, verdict: ReturnVerdict, failed: bool) {
        if verdict == ReturnVerdict::Stored {
            let count = if failed {
                &self.failed
            } else {
                &self.succeeded
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of jobs that were published.
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    /// Returns the numbers of returns that tell of a success and of a failure.
    pub(crate) fn returns(&self) -> (u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.succeeded), of(&self.failed))
    }
}

impl JobStore {
    /// Returns what the store has taken.
    pub(crate) fn counts(&self) -> &StoreCounts {
        &self.counts
    }

    /// Returns what was counted of the transactions.
    pub(crate) fn commits(&self) -> &Commits {
        self.writer.commits()
    }

    /// Returns the number of commands that wait for the thread that writes.
    pub(crate) fn writes_queued(&self) -> usize {
        self.writer.queued()
    }

    /// Returns the number of minions' states that are not final, of all jobs.
    pub(crate) fn offers(&self) -> usize {
        lock(&self.open).offers()
    }

    /// Returns the final states, and how often a minion's state became each since the store was opened.
    pub(crate) fn ends(&self) -> Vec<(&'static str, u64)> {
        let open = lock(&self.open);
        let finals = MinionJobState::ALL
            .into_iter()
            .filter(|state| state.is_final());
        finals
            .map(|state| (state.name(), open.changes_to(state)))
            .collect()
    }

    /// Returns the size in bytes from which the oldest jobs are removed; none for no such size.
    pub(crate) fn max_bytes(&self) -> Option<u64> {
        self.settings.max_bytes
    }

    /// Returns the number of jobs that minions may begin or run.
    pub fn under_way(&self) -> usize {
        lock(&self.open).under_way()
    }

    /// Returns the folder of the store.
    pub fn folder(&self) -> &Path {
        &self.settings.folder
    }

    /// Returns the size of the files of jobs in bytes. Blocks on the disk.
    pub fn bytes(&self) -> u64 {
        let starts = self.partitions.all();
        starts
            .iter()
            .map(|start| self.partitions.size(*start))
            .sum()
    }

    /// Has the thread that writes begin and commit a transaction with nothing in it, behind everything that is queued.
    ///
    /// # Errors
    /// When the store is closed, or its newest file cannot be opened.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn commit_nothing(&self) -> Result<(), StoreError> {
        self.writer
            .call(StoreFile::Newest, 0, |_| Ok(()), |_| ())
            .await
    }

    /// Locks the table of open jobs.
    #[cfg(test)]
    pub(crate) fn lock_for_good(&self) -> std::sync::MutexGuard<'_, super::OpenJobs> {
        lock(&self.open)
    }
}
