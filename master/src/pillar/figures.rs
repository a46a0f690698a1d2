//! What the compilation of pillars counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use saline_daemon::{DurationHistogram, MeasuredDurations};

/// What was compiled and sent since the master started.
#[derive(Debug, Default)]
pub(crate) struct PillarFigures {
    compiled: DurationHistogram,
    failed: AtomicU64,
    unchanged: AtomicU64,
    sent: AtomicU64,
}

impl PillarFigures {
    pub(super) fn count_compiled(&self, took: Duration, is_whole: bool) {
        self.compiled.add(took);
        if !is_whole {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn count_unchanged(&self) {
        self.unchanged.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns how long compilations took, those that failed too.
    pub(crate) fn compiled(&self) -> MeasuredDurations {
        self.compiled.measured()
    }

    /// Returns how many compilations had errors.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Returns how many minions had the pillar already that was compiled for them.
    pub(crate) fn unchanged(&self) -> u64 {
        self.unchanged.load(Ordering::Relaxed)
    }

    /// Returns the bytes of pillars that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}
