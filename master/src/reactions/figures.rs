//! What the reactor counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use saline_daemon::{DurationHistogram, MeasuredDurations};

/// What the reactor did since the master started.
#[derive(Debug, Default)]
pub(crate) struct ReactorFigures {
    events: AtomicU64,
    lost: AtomicU64,
    waiting: AtomicU64,
    orders: AtomicU64,
    failed: AtomicU64,
    cut: AtomicU64,
    rendered: DurationHistogram,
}

impl ReactorFigures {
    pub(crate) fn begin_event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_event(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn count_lost(&self, events: u64) {
        self.lost.fetch_add(events, Ordering::Relaxed);
    }

    pub(crate) fn count_order(&self, is_carried_out: bool) {
        let counter = if is_carried_out {
            &self.orders
        } else {
            &self.failed
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_cut(&self) {
        self.cut.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_rendered(&self, took: Duration) {
        self.rendered.add(took);
    }

    /// Returns the number of events to which files react.
    pub(crate) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Returns the number of events that the store had lost before they were read.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Returns the number of events in memory that are not done with.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns the numbers of orders that were given, of files and orders that failed, and of files that were not rendered
    /// for an event, to end a loop.
    pub(crate) fn outcomes(&self) -> [(&'static str, u64); 3] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("ordered", read(&self.orders)),
            ("failed", read(&self.failed)),
            ("cut", read(&self.cut)),
        ]
    }

    /// Returns how long files took to render, those that failed too.
    pub(crate) fn rendered(&self) -> MeasuredDurations {
        self.rendered.measured()
    }
}
