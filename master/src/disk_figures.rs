//! The figures of the master that only the disk knows.

use std::path::Path;
use std::sync::Arc;

use saline_messages::KeyState;
use tokio::sync::Semaphore;

use crate::jobs::JobStore;
use crate::keys::{KeyAccess, KeyStore};

/// What the disk knows.
#[derive(Debug)]
pub(crate) struct DiskFigures {
    /// The size of the job store in bytes.
    pub(crate) store: u64,
    /// The bytes that are free on the file system of the job store; none when it cannot be asked.
    pub(crate) free: Option<u64>,
    /// The number of keys in each state, in the order of `KeyState::ALL`; none when the folders cannot be read.
    pub(crate) keys: Option<[usize; KeyState::ALL.len()]>,
}

impl DiskFigures {
    /// Returns the number of keys in this state.
    pub(crate) fn keys(&self, state: KeyState) -> Option<usize> {
        let at = KeyState::ALL.iter().position(|each| *each == state)?;
        self.keys.map(|keys| keys[at])
    }
}

/// Asks the disk. Clones share one turn, so that a disk that hangs holds one thread.
#[derive(Debug, Clone)]
pub(crate) struct DiskReader {
    jobs: Arc<JobStore>,
    keys: KeyAccess,
    turn: Arc<Semaphore>,
}

impl DiskReader {
    pub(crate) fn new(jobs: Arc<JobStore>, keys: KeyAccess) -> Self {
        Self {
            jobs,
            keys,
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Returns what the disk knows; waits for as long as the disk hangs. None if the read panicked.
    ///
    /// # Cancel safety
    /// A read that has begun is finished when the future is dropped.
    pub(crate) async fn read(&self) -> Option<DiskFigures> {
        // The semaphore is never closed.
        let turn = Arc::clone(&self.turn).acquire_owned().await.ok()?;
        let jobs = Arc::clone(&self.jobs);
        let read = move |keys: &KeyStore| {
            let _turn = turn;
            DiskFigures {
                store: jobs.bytes(),
                free: free_bytes(jobs.folder()),
                keys: count_keys(keys),
            }
        };
        self.keys.with_minions(read).await
    }
}

fn count_keys(keys: &KeyStore) -> Option<[usize; KeyState::ALL.len()]> {
    let mut counts = [0; KeyState::ALL.len()];
    for (count, state) in counts.iter_mut().zip(KeyState::ALL) {
        *count = keys.count(state).ok()?;
    }
    Some(counts)
}

/// Returns the bytes that this process may still write in `folder`.
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}
