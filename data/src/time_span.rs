//! Spans of time as operators write them, on a command line and in a file: a number of seconds, or a number with the
//! unit `s`, `m`, `h` or `d`. The number may have a fraction.

use std::time::Duration;

/// The units and their lengths in seconds, the longest first.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Reads a span of time; none when `text` is not one.
pub fn parse(text: &str) -> Option<Duration> {
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(*unit));
    let (number, seconds) = match unit {
        Some((_, seconds)) => (&text[..text.len() - 1], *seconds),
        None => (text, 1),
    };
    if !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(seconds).map(Duration::from_secs);
    }
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(number * seconds as f64).ok()
}

/// Writes a span of time in the longest unit of which it is a whole number.
pub fn write(span: Duration) -> String {
    let seconds = span.as_secs();
    if span.subsec_nanos() > 0 || seconds == 0 {
        return format!("{}s", span.as_secs_f64());
    }
    let whole = |(_, length): &&(char, u64)| seconds.is_multiple_of(*length);
    match UNITS.iter().find(whole) {
        Some((unit, length)) => format!("{}{unit}", seconds / length),
        None => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_have_a_unit_or_are_seconds() {
        let read = |text| parse(text).map(|span| span.as_millis());
        let texts = ["90", "90s", "15m", "1h", "2d", "0", "0.5", "1.5h"];
        assert_eq!(
            texts.map(read),
            [
                90_000,
                90_000,
                900_000,
                3_600_000,
                172_800_000,
                0,
                500,
                5_400_000
            ]
            .map(Some)
        );
        for text in [
            "", "h", ".", "-1", "1w", "1e3", "inf", "NaN", "1é", "1 h", "+1",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("99999999999999999999d"), None);
        assert_eq!(parse("18446744073709551615d"), None);
    }

    #[test]
    fn spans_are_written_in_their_longest_whole_unit() {
        let written = [86_400, 172_800, 90_000, 5_400, 90, 0];
        let written = written.map(|seconds| write(Duration::from_secs(seconds)));
        assert_eq!(written, ["1d", "2d", "25h", "90m", "90s", "0s"]);
        assert_eq!(write(Duration::from_millis(500)), "0.5s");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(seconds in any::<u64>()) {
            let span = Duration::from_secs(seconds);
            prop_assert_eq!(parse(&write(span)), Some(span));
        }

        #[test]
        fn any_text_is_read_or_not(text in "\\PC{0,20}") {
            let _ = parse(&text);
        }
    }
}
