//! Tells the time of the machine.

use std::fmt;
use std::time::{Duration, SystemTime};

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};
use saline_protocol::transport::Clock;

use crate::JobContext;

/// Returns the time of the machine, such as `05:31:07 PM`.
///
/// utc_offset
///     By how much the clock that is asked for is ahead of UTC, such as `+0530`, in quotes, since it would be a number otherwise; the
///     time zone of the machine by default.
///
/// CLI Example:
///
///     saline '*' system.get_system_time
#[function]
pub(super) fn get_system_time(
    job: &JobContext<'_>,
    utc_offset: Option<UtcOffset>,
) -> Result<String, Failure> {
    now(job, utc_offset, "+%I:%M:%S %p")
}

/// Returns the date of the machine, such as `Thu 11/26/2026`. The parameter is that of `system.get_system_time`.
///
/// CLI Example:
///
///     saline '*' system.get_system_date
#[function]
pub(super) fn get_system_date(
    job: &JobContext<'_>,
    utc_offset: Option<UtcOffset>,
) -> Result<String, Failure> {
    now(job, utc_offset, "+%a %m/%d/%Y")
}

/// Returns the date and the time of the machine, such as `2026-11-26 17:31:07`. The parameter is that of
/// `system.get_system_time`.
///
/// CLI Example:
///
///     saline '*' system.get_system_date_time utc_offset="'+0000'"
#[function]
pub(super) fn get_system_date_time(
    job: &JobContext<'_>,
    utc_offset: Option<UtcOffset>,
) -> Result<String, Failure> {
    now(job, utc_offset, "+%Y-%m-%d %H:%M:%S")
}

pub(super) fn now(
    job: &JobContext<'_>,
    utc_offset: Option<UtcOffset>,
    format: &str,
) -> Result<String, Failure> {
    let said = match utc_offset {
        None => job.succeed(&["date", format], "")?,
        Some(UtcOffset(minutes)) => {
            let by = Duration::from_secs(u64::from(minutes.unsigned_abs()) * 60);
            let now = Clock.wall();
            let there = if minutes < 0 { now - by } else { now + by };
            let seconds = there.duration_since(SystemTime::UNIX_EPOCH);
            let seconds = format!("@{}", seconds.unwrap_or_default().as_secs());
            job.succeed(&["date", "-u", "-d", &seconds, format], "")?
        }
    };
    Ok(said.trim().to_owned())
}

/// A number of minutes ahead of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UtcOffset(i32);

impl fmt::Display for UtcOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { '-' } else { '+' };
        let minutes = self.0.unsigned_abs();
        write!(f, "{sign}{:02}{:02}", minutes / 60, minutes % 60)
    }
}

impl FromValue for UtcOffset {
    const TAKES: &'static str = "an offset from UTC in quotes, such as \"+0530\"";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let read = value.as_str().and_then(|text| {
            let (sign, digits) = text.split_at_checked(1)?;
            let is_offset = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit());
            let number: i32 = digits.parse().ok().filter(|_| is_offset)?;
            let minutes = number / 100 * 60 + number % 100;
            match sign {
                _ if number / 100 > 14 || number % 100 > 59 => None,
                "+" => Some(minutes),
                "-" => Some(-minutes),
                _ => None,
            }
        });
        read.map(Self).ok_or_else(|| Mismatch::of::<Self>(&value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_has_a_sign_hours_and_minutes() {
        let read = |text: &str| {
            UtcOffset::from_value(text.into())
                .ok()
                .map(|offset| offset.0)
        };
        assert_eq!(read("+0530"), Some(330));
        assert_eq!(read("-0800"), Some(-480));
        for text in ["+0000", "+0530", "-0800", "+1400", "-0030"] {
            let offset = UtcOffset::from_value(text.into()).unwrap();
            assert_eq!(offset.to_string(), text);
        }
        for wrong in ["", "+", "0530", "+530", "+0560", "+1500", "+05:30", "é0530"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
