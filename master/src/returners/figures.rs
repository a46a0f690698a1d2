//! What was delivered to a destination, and what was not.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use saline_config::ReturnerName;

/// Counts what was delivered to a destination since the master started.
#[derive(Debug)]
pub(crate) struct ReturnerFigures {
    name: ReturnerName,
    delivered: AtomicU64,
    refused: AtomicU64,
    failures: AtomicU64,
    lost: AtomicU64,
    /// The number of the oldest record of the batch that is being delivered; 0 while none is.
    waiting: AtomicI64,
}

impl ReturnerFigures {
    pub(super) fn new(name: ReturnerName) -> Self {
        Self {
            name,
            delivered: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            waiting: AtomicI64::new(0),
        }
    }

    /// Returns the name of the destination.
    pub(crate) fn name(&self) -> ReturnerName {
        self.name
    }

    /// Returns the number of records that it has taken.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Returns the number of records that it will never take.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the number of attempts that failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns the number of jobs, returns and events that were removed from the stores before it had them.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Returns for how many seconds the oldest record waits at this time, in microseconds since 1970.
    pub(crate) fn lag(&self, now: i64) -> f64 {
        match self.waiting.load(Ordering::Relaxed) {
            0 => 0.0,
            since => now.saturating_sub(since).max(0) as f64 / 1e6,
        }
    }

    pub(super) fn add_delivered(&self, count: usize) {
        self.delivered.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn add_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn set_waiting(&self, since: i64) {
        self.waiting.store(since, Ordering::Relaxed);
    }
}
