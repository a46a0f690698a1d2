//! Times and durations in the form that messages carry: whole milliseconds.

use std::time::{Duration, UNIX_EPOCH};

use saline_protocol::message::MasterTime;
use saline_protocol::transport::Clock;

/// Returns the master's wall clock: milliseconds since 1970 in UTC.
pub fn master_time(clock: Clock) -> MasterTime {
    let since = clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    milliseconds(since)
}

/// Returns a duration in milliseconds, the largest number if it has more.
pub fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
