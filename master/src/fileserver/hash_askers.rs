//! The minions that ask for the hash of a file. They come again while it is made, and it is given up once they do not.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use saline_jailed_files::FileVersion;
use saline_protocol::transport::{Clock, Instant};

/// How long a hash goes on that nobody asks for. A minion comes again sooner, also one that has lost its connection for a moment.
pub(super) const COMES_AGAIN: Duration = Duration::from_secs(30);

/// The askers of each file whose hash is made or waited for, by device and inode.
#[derive(Debug)]
pub(super) struct HashAskers {
    clock: Clock,
    files: Mutex<HashMap<(u64, u64), Arc<FileAskers>>>,
}

/// The askers of one file.
#[derive(Debug)]
pub(super) struct FileAskers {
    clock: Clock,
    /// How many ask now, and when the last one left.
    state: Mutex<(usize, Instant)>,
}

/// A request that asks for a hash, until it is dropped.
#[derive(Debug)]
pub(super) struct Asking(pub(super) Arc<FileAskers>);

impl HashAskers {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            files: Mutex::default(),
        }
    }

    /// Notes a request for the hash of a file.
    pub(super) fn ask(&self, version: &FileVersion) -> Asking {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody makes or awaits a hash whose askers nothing else refers to.
        files.retain(|_, askers| Arc::strong_count(askers) > 1);
        let askers = files.entry((version.device, version.inode));
        let askers = askers.or_insert_with(|| {
            Arc::new(FileAskers {
                clock: self.clock,
                state: Mutex::new((0, self.clock.now())),
            })
        });
        askers.lock().0 += 1;
        Asking(Arc::clone(askers))
    }

    /// Returns for how many files somebody has asked, as far as that is known still.
    #[cfg(test)]
    pub(super) fn asked_files(&self) -> usize {
        let files = self.files.lock();
        files.unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl FileAskers {
    /// Whether nobody has asked for a while.
    pub(super) fn are_gone(&self) -> bool {
        let (asking, left) = *self.lock();
        asking == 0 && self.clock.now() >= left + COMES_AGAIN
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (usize, Instant)> {
        // Each change is one step, so a poisoned lock is still valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let now = self.0.clock.now();
        let mut state = self.0.lock();
        *state = (state.0.saturating_sub(1), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn askers_are_gone_once_none_has_asked_for_a_while() {
        let askers = HashAskers::new(Clock);
        let version = FileVersion {
            device: 1,
            inode: 2,
            size: 3,
            modified: (0, 0),
            changed: (0, 0),
        };
        let (first, second) = (askers.ask(&version), askers.ask(&version));
        let file = Arc::clone(&first.0);
        drop(first);
        tokio::time::advance(COMES_AGAIN).await;
        assert!(!file.are_gone(), "another one asks");
        drop(second);
        assert!(!file.are_gone());
        tokio::time::advance(COMES_AGAIN / 2).await;
        drop(askers.ask(&version));
        tokio::time::advance(COMES_AGAIN / 2).await;
        assert!(!file.are_gone(), "it was asked for again");
        tokio::time::advance(COMES_AGAIN / 2).await;
        assert!(file.are_gone());
    }
}
