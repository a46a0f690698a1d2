//! Durations in the form that messages carry: whole milliseconds.

use std::time::Duration;

/// Returns a duration in milliseconds, the largest number if it has more.
pub fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
