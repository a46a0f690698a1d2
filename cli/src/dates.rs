//! Formats of times.

use saline_messages::MasterTime;
use time::OffsetDateTime;
use time::macros::format_description;

/// Formats a time as `2026-11-21 09:19:44 UTC`.
pub(crate) fn utc(at: MasterTime) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second] UTC");
    i64::try_from(at / 1000)
        .ok()
        .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
        .and_then(|time| time.format(&format).ok())
        .unwrap_or_else(|| format!("{at} ms after 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(utc(1_795_252_784_999), "2026-11-21 09:19:44 UTC");
        assert_eq!(utc(u64::MAX), "18446744073709551615 ms after 1970");
    }
}
