//! Receipt numbers: each job and each return has one, above all before it, so that whoever follows returns can go
//! on after the last one that it has seen.
//!
//! A receipt number is the time at which the return was stored in microseconds, or one more than the last one. It
//! is the number of the row, so that returns are only ever appended.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock::MasterClock;

/// Gives receipt numbers: the time in microseconds since 1970, or one above the last number.
#[derive(Debug)]
pub(crate) struct ReceiptSource {
    last: AtomicI64,
    clock: MasterClock,
}

impl ReceiptSource {
    /// Continues after `last`.
    pub(crate) fn after(last: i64, clock: MasterClock) -> Self {
        Self {
            last: AtomicI64::new(last),
            clock,
        }
    }

    /// Returns the next number. Only the thread that writes calls it, so that returns are committed in the
    /// order of their numbers.
    pub(crate) fn next(&self) -> i64 {
        let now = self.clock.micros();
        let next = now.max(self.last.load(Ordering::Relaxed).saturating_add(1));
        self.last.store(next, Ordering::Relaxed);
        next
    }

    /// Returns the last number.
    pub(crate) fn last(&self) -> i64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Returns a number that no later one is below: after a restart numbers may have been given above the last one that is
    /// known, but none above the time.
    pub(crate) fn highest(&self) -> i64 {
        self.clock.micros().max(self.last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_protocol::transport::Clock;

    #[test]
    fn numbers_rise_also_when_the_clock_was_set_back() {
        let far = i64::MAX - 10;
        let receipts = ReceiptSource::after(far, MasterClock::new(Clock));
        assert_eq!([receipts.next(), receipts.next()], [far + 1, far + 2]);
        let receipts = ReceiptSource::after(0, MasterClock::new(Clock));
        let first = receipts.next();
        assert!(first > 1_700_000_000_000_000);
        assert!(receipts.next() > first);
    }
}
