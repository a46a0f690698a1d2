//! Formats of times.

use saline_protocol::message::{Jid, MasterTime};
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

/// Formats the time in a jid as Salt's job cache shows it: `2026, Nov 21 09:14:09.931549`. Digits
/// that are no valid time are returned unchanged.
pub(crate) fn of_jid(jid: &Jid) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let text = jid.as_str();
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let month = part(4, 6)
        .parse::<usize>()
        .ok()
        .and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    match month {
        Some(month) => format!(
            "{}, {month} {} {}:{}:{}.{}",
            part(0, 4),
            part(6, 8),
            part(8, 10),
            part(10, 12),
            part(12, 14),
            part(14, 20)
        ),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(utc(1_795_252_784_999), "2026-11-21 09:19:44 UTC");
        assert_eq!(utc(u64::MAX), "18446744073709551615 ms after 1970");
        let jid = |text| of_jid(&Jid::parse(text).unwrap());
        assert_eq!(jid("20261121091409931549"), "2026, Nov 21 09:14:09.931549");
        assert_eq!(jid("00000000000000000000"), "00000000000000000000");
    }
}
