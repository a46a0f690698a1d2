//! The figures of the job store that `--health` reports.

use std::path::Path;

use super::disk::writer::StoreFile;
use super::{JobStore, StoreError, lock};

impl JobStore {
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
