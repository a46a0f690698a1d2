//! Durations, counted by their lengths.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets in microseconds: from half a millisecond to ten seconds.
const BOUNDS: [u64; 13] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 10_000_000,
];

/// Counts durations by their lengths. Any thread may add one, without a lock.
#[derive(Debug, Default)]
pub struct DurationHistogram {
    /// The last one counts what is longer than every bound.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

/// The durations that were counted until a moment.
#[derive(Debug)]
pub struct MeasuredDurations {
    /// The sum in seconds.
    pub(super) sum: f64,
    pub(super) count: u64,
    /// The upper bound of each bucket in seconds, and the number of durations in it alone.
    pub(super) buckets: Vec<(f64, u64)>,
}

impl DurationHistogram {
    /// Counts a duration.
    pub fn add(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < micros);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns what was counted until now.
    pub fn measured(&self) -> MeasuredDurations {
        let bounds = BOUNDS.iter().map(|micros| *micros as f64 / 1e6);
        let counts = self.buckets.iter();
        let counts = counts.map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.chain([f64::INFINITY]).zip(counts).collect();
        MeasuredDurations {
            sum: self.micros.load(Ordering::Relaxed) as f64 / 1e6,
            count: buckets.iter().map(|(_, count)| count).sum(),
            buckets,
        }
    }
}

impl MeasuredDurations {
    /// Returns how many durations were counted.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_bucket_whose_bound_it_does_not_exceed() {
        let histogram = DurationHistogram::default();
        for micros in [0, 500, 501, 10_000_000, 10_000_001] {
            histogram.add(Duration::from_micros(micros));
        }
        let measured = histogram.measured();
        let filled: Vec<_> = measured
            .buckets
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .collect();
        assert_eq!(
            filled,
            [(0.0005, 2), (0.001, 1), (10.0, 1), (f64::INFINITY, 1)]
        );
        assert_eq!((measured.count, measured.sum), (5, 20.001002));
    }
}
