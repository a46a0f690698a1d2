//! When maintenance has to look for expired offers next, so that it need not ask the store each second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use saline_protocol::message::MasterTime;

/// The earliest time at which an open offer may expire. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct NextExpiry(Arc<AtomicU64>);

impl NextExpiry {
    /// Notes that an offer expires at `at`.
    pub fn note(&self, at: MasterTime) {
        self.0.fetch_min(at, Ordering::AcqRel);
    }

    /// Whether an offer may have expired by `now`. If so, the time is cleared: the caller expires
    /// offers and notes the next one, and a job published meanwhile notes its own.
    pub fn take_due(&self, now: MasterTime) -> bool {
        let due = self.0.load(Ordering::Acquire) <= now;
        if due {
            self.0.store(MasterTime::MAX, Ordering::Release);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_time_counts_and_is_taken_once() {
        let next = NextExpiry::default();
        assert!(next.take_due(0), "jobs may have expired before the start");
        assert!(!next.take_due(1_000));
        next.note(500);
        next.note(700);
        assert!(!next.take_due(499));
        assert!(next.clone().take_due(500));
        assert!(!next.take_due(1_000));
    }
}
