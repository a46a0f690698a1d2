//! The types of the parameters by which `jobs.list_jobs` chooses among jobs.

use saline_data::Value;
use saline_functions::{FromValue, Mismatch};
use saline_targeting::Glob;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{Date, OffsetDateTime, PrimitiveDateTime, Time};

/// The forms of a date with a time of day that are understood, all in UTC.
const TIMES: [&[BorrowedFormatItem<'_>]; 7] = [
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond]"),
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second]"),
    format_description!("[year]-[month]-[day] [hour]:[minute]"),
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond]"),
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]"),
    // As Salt prints the time of a job.
    format_description!("[year], [month repr:short] [day] [hour]:[minute]:[second].[subsecond]"),
    format_description!("[year][month][day][hour][minute][second][subsecond digits:6]"),
];

/// The forms of a date alone.
const DATES: [&[BorrowedFormatItem<'_>]; 2] = [
    format_description!("[year]-[month]-[day]"),
    format_description!("[year][month][day]"),
];

/// The forms of a time of today.
const TIMES_OF_DAY: [&[BorrowedFormatItem<'_>]; 2] = [
    format_description!("[hour]:[minute]:[second]"),
    format_description!("[hour]:[minute]"),
];

/// A time that bounds a search, in UTC.
#[derive(Debug, Clone, Copy)]
pub(super) enum SearchTime {
    /// A point in time.
    At(PrimitiveDateTime),
    /// A whole day.
    On(Date),
    /// A time of today.
    Today(Time),
}

impl SearchTime {
    fn parse(text: &str) -> Option<Self> {
        let text = text
            .trim()
            .trim_end_matches("UTC")
            .trim_end_matches('Z')
            .trim();
        let at = |form: &_| PrimitiveDateTime::parse(text, form).ok().map(Self::At);
        let on = |form: &_| Date::parse(text, form).ok().map(Self::On);
        let today = |form: &_| Time::parse(text, form).ok().map(Self::Today);
        TIMES
            .iter()
            .find_map(at)
            .or_else(|| DATES.iter().find_map(on))
            .or_else(|| TIMES_OF_DAY.iter().find_map(today))
    }

    /// Returns its first microsecond since 1970.
    pub(super) fn first_micros(self, now: OffsetDateTime) -> i64 {
        let time = match self {
            Self::At(time) => time,
            Self::On(date) => date.with_time(Time::MIDNIGHT),
            Self::Today(time) => now.date().with_time(time),
        };
        let micros = time.assume_utc().unix_timestamp_nanos() / 1_000;
        // Every year that is understood fits.
        i64::try_from(micros).unwrap_or(i64::MAX)
    }

    /// Returns its last microsecond since 1970.
    pub(super) fn last_micros(self, now: OffsetDateTime) -> i64 {
        let more = match self {
            Self::On(_) => 86_400_000_000 - 1,
            Self::At(_) | Self::Today(_) => 0,
        };
        self.first_micros(now).saturating_add(more)
    }
}

impl FromValue for SearchTime {
    const TAKES: &'static str =
        "a time in UTC such as '2026-11-21', '2026-11-21 09:14', or 09:14 of today";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let text = String::from_value(value.clone()).ok();
        let time = text.and_then(|text| Self::parse(&text));
        time.ok_or_else(|| Mismatch::of::<Self>(&value))
    }
}

/// Globs with commas between them, or a list of globs.
#[derive(Debug, Default)]
pub(super) struct Globs(pub(super) Vec<Glob>);

impl FromValue for Globs {
    const TAKES: &'static str = "a glob, or a list of globs";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let texts = match value {
            Value::Text(text) => text.split(',').map(|glob| glob.trim().to_owned()).collect(),
            other => Vec::<String>::from_value(other).map_err(|mismatch| Mismatch {
                expected: Self::TAKES.into(),
                ..mismatch
            })?,
        };
        let texts = texts.into_iter().filter(|text| !text.is_empty());
        let globs = texts.map(|text| Glob::from_value(text.into()));
        globs.collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_understood_in_many_forms() {
        let now = OffsetDateTime::from_unix_timestamp(1_795_252_784).unwrap();
        let read = |text, micros: fn(SearchTime, OffsetDateTime) -> i64| {
            let micros = micros(SearchTime::parse(text)?, now);
            OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000)
                .ok()
                .map(|time| time.to_string())
        };
        let second = Some("2026-11-21 9:14:09.0 +00:00:00".to_owned());
        for text in [
            "2026-11-21 09:14:09",
            "2026-11-21T09:14:09Z",
            "2026-11-21 09:14:09 UTC",
            "2026-11-21 09:14:09.000000",
            "2026, Nov 21 09:14:09.000000",
            "2026, Nov 21 09:14:09.000000 UTC",
            "20261121091409000000",
            "09:14:09",
        ] {
            assert_eq!(read(text, SearchTime::first_micros), second, "{text}");
            assert_eq!(read(text, SearchTime::last_micros), second, "{text}");
        }
        for text in ["2026-11-21", "20261121"] {
            let first = Some("2026-11-21 0:00:00.0 +00:00:00".to_owned());
            let last = Some("2026-11-21 23:59:59.999999 +00:00:00".to_owned());
            assert_eq!(read(text, SearchTime::first_micros), first, "{text}");
            assert_eq!(read(text, SearchTime::last_micros), last, "{text}");
        }
        for text in ["", "yesterday", "2026-13-01", "25:00", "2026"] {
            assert_eq!(read(text, SearchTime::first_micros), None, "{text:?}");
        }
    }
}
