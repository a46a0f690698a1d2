//! What the mine counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use saline_daemon::{DurationHistogram, MeasuredDurations};

/// What was left in the mine and given out since the master started.
#[derive(Debug, Default)]
pub(crate) struct MineFigures {
    stored: AtomicU64,
    refused: AtomicU64,
    sent: AtomicU64,
    read: DurationHistogram,
}

impl MineFigures {
    pub(super) fn count_stored(&self, entries: usize) {
        self.stored.fetch_add(entries as u64, Ordering::Relaxed);
    }

    pub(super) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_read(&self, took: Duration, entries: usize) {
        self.read.add(took);
        self.sent.fetch_add(entries as u64, Ordering::Relaxed);
    }

    /// Returns how many entries were stored.
    pub(crate) fn stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    /// Returns how many requests were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns how many entries were sent to minions.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns how long each page took, from the minion's turn on.
    pub(crate) fn read(&self) -> MeasuredDurations {
        self.read.measured()
    }
}
