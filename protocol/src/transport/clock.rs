//! The one place where time is read and waited for.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the place that the ban sends everybody to"
)]

use std::future::Future;
use std::time::{Duration, SystemTime};

/// A point of monotonic time. It follows `tokio::time::pause`, so that tests can run hours in no time.
pub use tokio::time::Instant;

/// The deadline passed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the deadline passed")]
pub struct Elapsed;

/// Reads and awaits time. A value, handed in by the [`Context`](super::Context), so that a backend
/// has no clock of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock;

impl Clock {
    /// Now, on the monotonic clock.
    pub fn now(self) -> Instant {
        Instant::now()
    }

    /// Now, on the wall clock, which may step in both directions.
    pub fn wall(self) -> SystemTime {
        let now = SystemTime::now();
        #[cfg(feature = "chaos")]
        let now = stepped(now);
        now
    }

    /// Returns the time `duration` from now: the form in which the contract takes the deadlines of requests and
    /// subscriptions.
    pub fn after(self, duration: Duration) -> Instant {
        Instant::now() + duration
    }

    /// Waits until `deadline`. For timers (pings, backoff, expiry), never to wait for a condition.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn until(self, deadline: Instant) {
        tokio::time::sleep_until(deadline).await;
    }

    /// Waits for `duration`; see [`until`](Self::until).
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn pause(self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Runs `future` until `deadline`. It is polled at least once, also when that has passed.
    ///
    /// # Errors
    /// [`Elapsed`] when the deadline comes first; the future is dropped then.
    ///
    /// # Cancel safety
    /// As safe as `future` is.
    pub async fn deadline<F: Future>(
        self,
        deadline: Instant,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        tokio::time::timeout_at(deadline, future)
            .await
            .map_err(|_| Elapsed)
    }

    /// A timer that ticks every `period`, first after one period. Ticks that were missed are skipped,
    /// and the next comes a period after the one that was late.
    ///
    /// # Panics
    /// When `period` is zero.
    pub fn interval(self, period: Duration) -> tokio::time::Interval {
        self.interval_after(period, period)
    }

    /// A timer that ticks first after `first`, and then as [`interval`](Self::interval) does.
    ///
    /// # Panics
    /// When `period` is zero.
    pub fn interval_after(self, first: Duration, period: Duration) -> tokio::time::Interval {
        let mut interval = tokio::time::interval_at(Instant::now() + first, period);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        interval
    }
}

/// The variable that names the file with the injected offset of the wall clock.
#[cfg(feature = "chaos")]
const CLOCK_FILE: &str = "SALINE_CHAOS_CLOCK_FILE";

/// Adds the offset in seconds that the file named in [`CLOCK_FILE`] contains. A file that is absent or
/// contains no number is no offset.
#[cfg(feature = "chaos")]
fn stepped(now: SystemTime) -> SystemTime {
    let text = std::env::var_os(CLOCK_FILE).and_then(|path| std::fs::read_to_string(path).ok());
    let offset: i64 = text.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let by = Duration::from_secs(offset.unsigned_abs());
    let stepped = match offset < 0 {
        true => now.checked_sub(by),
        false => now.checked_add(by),
    };
    stepped.unwrap_or(now)
}
