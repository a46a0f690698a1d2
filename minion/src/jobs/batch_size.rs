//! How many bytes of returns go into one request. A request that takes long delays heartbeats, and a link that is too slow
//! for it never gets it across, so that what is large goes in parts from then on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use saline_messages::PARTS_FROM;

/// The smallest size in bytes: a few seconds of the slowest links.
const SMALLEST: usize = 8 * 1024;

/// The size of the first request, on a link that nothing is known of: at three kilobytes a second it takes as long as what is slow.
const FIRST: usize = 32 * 1024;

/// A request that took longer was too large. The master may commit for seconds under load, and that is no reason for
/// smaller requests.
const SLOW: Duration = Duration::from_secs(10);

/// A request of at least half the size that took less is followed by one of twice its size.
const QUICK: Duration = Duration::from_secs(1);

/// The size of the next request.
#[derive(Debug)]
pub(super) struct BatchSize(AtomicUsize);

impl Default for BatchSize {
    fn default() -> Self {
        Self(AtomicUsize::new(FIRST))
    }
}

impl BatchSize {
    /// Returns the size in bytes. A return with a larger payload travels alone, in parts.
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes that `bytes` in parts were answered, or given up, after this time. Slow parts say nothing that is not known.
    pub(super) fn parts_ended_after(&self, took: Duration, bytes: usize, is_answered: bool) {
        if took < QUICK {
            self.ended_after(took, bytes, is_answered);
        }
    }

    /// Notes that a request of `bytes` was answered, or given up, after this time.
    pub(super) fn ended_after(&self, took: Duration, bytes: usize, is_answered: bool) {
        let now = self.bytes();
        let next = match took {
            took if took > SLOW => SMALLEST,
            took if took < QUICK && is_answered && bytes >= now / 2 => (now * 2).min(PARTS_FROM),
            _ => return,
        };
        self.0.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_request_is_followed_by_small_ones_until_the_link_is_quick() {
        let size = BatchSize::default();
        let second = Duration::from_secs(1);
        size.ended_after(10 * second, 1_000, false);
        assert_eq!(size.bytes(), FIRST);
        size.ended_after(11 * second, 1_000, false);
        assert_eq!(size.bytes(), SMALLEST);
        // A small one says nothing about the link, nor does one that failed at once.
        size.ended_after(Duration::ZERO, SMALLEST / 2 - 1, true);
        size.ended_after(Duration::ZERO, SMALLEST, false);
        size.ended_after(second, SMALLEST, true);
        assert_eq!(size.bytes(), SMALLEST);
        size.ended_after(second / 2, SMALLEST / 2, true);
        assert_eq!(size.bytes(), 2 * SMALLEST);
        size.parts_ended_after(60 * second, PARTS_FROM, true);
        assert_eq!(size.bytes(), 2 * SMALLEST);
        for _ in 0..10 {
            size.parts_ended_after(second / 2, PARTS_FROM, true);
        }
        assert_eq!(size.bytes(), PARTS_FROM);
    }
}
