//! The generator of random numbers behind a plan.

use std::ops::RangeInclusive;
use std::time::Duration;

/// SplitMix64: the same seed gives the same numbers on every machine and in every version.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number of the range.
    pub(crate) fn number(&mut self, range: RangeInclusive<u64>) -> u64 {
        let span = range.end().saturating_sub(*range.start()).saturating_add(1);
        range.start() + self.next() % span.max(1)
    }

    /// Returns an index below `length`, which must not be 0.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.number(0..=length.saturating_sub(1) as u64) as usize
    }

    /// Returns a duration of so many milliseconds.
    pub(crate) fn millis(&mut self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.number(range))
    }

    /// Returns true in so many cases of a hundred.
    pub(crate) fn percent(&mut self, cases: u64) -> bool {
        self.number(1..=100) <= cases
    }

    /// Shuffles the items.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}
