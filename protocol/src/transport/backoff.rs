//! How long to wait before trying again.

use std::time::Duration;

/// Exponential backoff with full jitter: attempt n, counted from 0, waits a random time of up to
/// `first * 2^n`, never above `max` and never below a tenth of that bound, so that a fleet whose
/// master restarts does not come back in one wave.
///
/// ```
/// use std::time::Duration;
/// use saline_protocol::transport::Backoff;
///
/// let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
/// assert!(backoff.next_delay() <= Duration::from_millis(200));
/// assert!(backoff.next_delay() <= Duration::from_millis(400));
/// ```
///
/// After: "Exponential Backoff And Jitter", M. Brooker, 2015.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    attempt: u32,
}

impl Backoff {
    /// Waits whose bound grows from `first` to `max`; a `max` below `first` counts as `first`.
    pub fn new(first: Duration, max: Duration) -> Self {
        Self {
            first,
            max: max.max(first),
            attempt: 0,
        }
    }

    /// The time to wait before the next attempt. Each call counts as an attempt that failed.
    pub fn next_delay(&mut self) -> Duration {
        let bound = self
            .first
            .saturating_mul(1u32.checked_shl(self.attempt).unwrap_or(u32::MAX))
            .min(self.max);
        self.attempt = self.attempt.saturating_add(1).min(31);
        let floor = bound / 10;
        floor + jitter(bound.saturating_sub(floor))
    }

    /// An attempt succeeded: the next failure starts from the beginning.
    pub fn reset(&mut self) {
        self.attempt = 0;
    }
}

impl Default for Backoff {
    /// 0.2 s to 10 s.
    fn default() -> Self {
        Self::new(Duration::from_millis(200), Duration::from_secs(10))
    }
}

/// A random duration from zero to `bound`; `bound` itself where the system has no randomness.
pub fn jitter(bound: Duration) -> Duration {
    let mut bytes = [0u8; 4];
    // Without randomness the herd is not spread, which is worse but not wrong.
    if getrandom::fill(&mut bytes).is_err() {
        return bound;
    }
    bound.mul_f64(f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_maximum_and_stay_within_it() {
        let (first, max) = (Duration::from_millis(200), Duration::from_secs(10));
        let mut backoff = Backoff::new(first, max);
        for attempt in 0..50 {
            let bound = first.saturating_mul(1 << attempt.min(20)).min(max);
            let delay = backoff.next_delay();
            assert!(
                delay <= bound && delay >= bound / 10,
                "attempt {attempt}: {delay:?}"
            );
        }
        backoff.reset();
        assert!(backoff.next_delay() <= first);
    }
}
