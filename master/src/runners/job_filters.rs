//! The arguments of `jobs.list_jobs` that choose among jobs.

use saline_data::Value;
use saline_targeting::Glob;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{Date, OffsetDateTime, PrimitiveDateTime, Time};

use super::arguments::BoundArguments;
use super::error::RunnerError;
use super::job_report::master_name;
use super::run::Run;
use crate::jobs::JobSearch;

/// The largest number of jobs in one list.
pub(super) const MAX_LISTED: usize = 50_000;

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

/// The end of a span of time, such as a day, that a filter means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// At its beginning.
    First,
    /// At its end.
    Last,
}

/// The names of the parameters that hold the filters.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilterNames {
    pub(super) metadata: &'static str,
    pub(super) function: &'static str,
    pub(super) target: &'static str,
}

/// Reads the filters of a search.
pub(super) fn search(
    run: &Run,
    arguments: &BoundArguments,
    names: FilterNames,
    most: usize,
) -> Result<JobSearch, RunnerError> {
    let now = OffsetDateTime::from(run.parts.clock().wall());
    let time = |name: &'static str, end| match arguments.text(name) {
        Ok(Some(text)) => match micros(&text, now, end) {
            Some(micros) => Ok(Some(micros)),
            None => Err(arguments.wrong(
                name,
                "a time in UTC such as '2026-11-21', '2026-11-21 09:14', or 09:14 of today",
            )),
        },
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    let all = JobSearch::all(most, master_name());
    Ok(JobSearch {
        functions: globs(arguments, names.function)?,
        targets: globs(arguments, names.target)?,
        metadata: metadata(arguments, names.metadata)?,
        from: time("start_time", End::First)?.unwrap_or(all.from),
        until: time("end_time", End::Last)?.unwrap_or(all.until),
        ..all
    })
}

/// Reads globs with commas between them, or a list of globs.
fn globs(arguments: &BoundArguments, name: &str) -> Result<Vec<Glob>, RunnerError> {
    let texts: Vec<String> = match arguments.value(name) {
        None => return Ok(Vec::new()),
        Some(Value::Text(text)) => text.split(',').map(|glob| glob.trim().to_owned()).collect(),
        Some(Value::List(list)) => {
            let texts = list.iter().map(|value| value.as_str().map(str::to_owned));
            let texts: Option<Vec<String>> = texts.collect();
            texts.ok_or_else(|| arguments.wrong(name, "a glob or a list of globs"))?
        }
        Some(_) => return Err(arguments.wrong(name, "a glob or a list of globs")),
    };
    let globs = texts.iter().filter(|text| !text.is_empty()).map(|text| {
        Glob::compile(text).map_err(|error| arguments.wrong(name, &format!("globs: {error}")))
    });
    globs.collect()
}

fn metadata(arguments: &BoundArguments, name: &str) -> Result<Vec<(String, Value)>, RunnerError> {
    match arguments.value(name) {
        None => Ok(Vec::new()),
        Some(Value::Map(entries)) => Ok(entries.clone()),
        Some(_) => Err(arguments.wrong(name, "a mapping such as '{ticket: 4711}'")),
    }
}

/// Returns a time in microseconds since 1970; none when it is in none of the forms.
fn micros(text: &str, now: OffsetDateTime, end: End) -> Option<i64> {
    let text = text
        .trim()
        .trim_end_matches("UTC")
        .trim_end_matches('Z')
        .trim();
    let precise = TIMES
        .iter()
        .find_map(|form| PrimitiveDateTime::parse(text, form).ok());
    let (time, span) = match precise {
        Some(time) => (time, 1),
        None => match DATES.iter().find_map(|form| Date::parse(text, form).ok()) {
            Some(date) => (date.with_time(Time::MIDNIGHT), 86_400_000_000),
            None => {
                let time = TIMES_OF_DAY
                    .iter()
                    .find_map(|form| Time::parse(text, form).ok())?;
                (now.date().with_time(time), 1)
            }
        },
    };
    let micros = i64::try_from(time.assume_utc().unix_timestamp_nanos() / 1_000).ok()?;
    Some(match end {
        End::First => micros,
        End::Last => micros.saturating_add(span - 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_understood_in_many_forms() {
        let now = OffsetDateTime::from_unix_timestamp(1_795_252_784).unwrap();
        let read = |text, end| {
            let micros = micros(text, now, end)?;
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
            "20261121091409000000",
            "09:14:09",
        ] {
            assert_eq!(read(text, End::First), second, "{text}");
            assert_eq!(read(text, End::Last), second, "{text}");
        }
        for text in ["2026-11-21", "20261121"] {
            let first = Some("2026-11-21 0:00:00.0 +00:00:00".to_owned());
            let last = Some("2026-11-21 23:59:59.999999 +00:00:00".to_owned());
            assert_eq!(read(text, End::First), first, "{text}");
            assert_eq!(read(text, End::Last), last, "{text}");
        }
        for text in ["", "yesterday", "2026-13-01", "25:00", "2026"] {
            assert_eq!(read(text, End::First), None, "{text:?}");
        }
    }
}
