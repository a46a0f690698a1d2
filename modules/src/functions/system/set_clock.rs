//! Sets the clock of the machine, with the program `date`.

use std::path::Path;

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{Date, Month, PrimitiveDateTime, Time};

use super::clock::{UtcOffset, now};
use crate::{JobContext, Outcome};

/// The forms of a time, of which the first that fits counts.
const TIMES: [&[BorrowedFormatItem<'_>]; 4] = [
    format_description!(
        "[hour repr:12 padding:none]:[minute]:[second] [period case_sensitive:false]"
    ),
    format_description!("[hour repr:12 padding:none]:[minute] [period case_sensitive:false]"),
    format_description!("[hour padding:none]:[minute]:[second]"),
    format_description!("[hour padding:none]:[minute]"),
];

/// The forms of a date, of which the first that fits counts.
const DATES: [&[BorrowedFormatItem<'_>]; 4] = [
    format_description!("[year]-[month]-[day]"),
    format_description!("[month]-[day]-[year]"),
    format_description!("[month]/[day]/[year]"),
    format_description!("[year]/[month]/[day]"),
];

/// The form in which the program tells and takes the time.
const BOTH: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");

/// The clock in the hardware of a machine, which not every one has.
const HARDWARE_CLOCK: &str = "/dev/rtc0";

/// Sets the time of the machine, and leaves its date. Returns `True`.
///
/// newtime
///     `HH:MM`, `HH:MM:SS`, and both with `AM` or `PM` behind a blank.
///
/// utc_offset
///     By how much the clock that the time is read from is ahead of UTC, such as `+0530`, in quotes; the time zone of the machine by
///     default.
///
/// test
///     `True` returns the time that there is and the one that would be set, and changes nothing.
///
/// CLI Example:
///
///     saline '*' system.set_system_time "'17:31:07'"
#[function(changes, acts_once)]
pub(super) fn set_system_time(
    job: &JobContext<'_>,
    newtime: NewTime,
    utc_offset: Option<UtcOffset>,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    set(job, utc_offset, test, |now| Ok(now.replace_time(newtime.0)))
}

/// Sets the date of the machine, and leaves its time. Returns `True`.
///
/// newdate
///     `YYYY-MM-DD`, `MM-DD-YYYY`, `MM-DD-YY`, and these with slashes.
///
/// utc_offset
///     As in `system.set_system_time`.
///
/// test
///     As in `system.set_system_time`.
///
/// CLI Example:
///
///     saline '*' system.set_system_date '11-26-2026'
#[function(changes, acts_once)]
pub(super) fn set_system_date(
    job: &JobContext<'_>,
    newdate: NewDate,
    utc_offset: Option<UtcOffset>,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    set(job, utc_offset, test, |now| Ok(now.replace_date(newdate.0)))
}

/// Sets the clock of the machine. What is not given stays as it is. Returns `True`.
///
/// years
///     The year, with four digits.
///
/// months
///     The month, from 1 to 12.
///
/// days
///     The day of the month.
///
/// hours
///     The hour, from 0 to 23.
///
/// minutes
///     The minute, from 0 to 59.
///
/// seconds
///     The second, from 0 to 59.
///
/// utc_offset
///     As in `system.set_system_time`.
///
/// test
///     As in `system.set_system_time`.
///
/// CLI Example:
///
///     saline '*' system.set_system_date_time 2026 11 26 17 31 7 "'+0000'"
#[function(changes, acts_once)]
#[expect(clippy::too_many_arguments, reason = "they are Salt's")]
pub(super) fn set_system_date_time(
    job: &JobContext<'_>,
    years: Option<u64>,
    months: Option<u64>,
    days: Option<u64>,
    hours: Option<u64>,
    minutes: Option<u64>,
    seconds: Option<u64>,
    utc_offset: Option<UtcOffset>,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    set(job, utc_offset, test, |now| {
        // A number that is too large for its type is out of the range of every part.
        let part = |given: Option<u64>, now: u8| {
            given.map_or(now, |given| u8::try_from(given).unwrap_or(u8::MAX))
        };
        let year = years.map_or(now.year(), |year| i32::try_from(year).unwrap_or(i32::MAX));
        let month = Month::try_from(part(months, now.month().into()))?;
        let date = Date::from_calendar_date(year, month, part(days, now.day()))?;
        let time = Time::from_hms(
            part(hours, now.hour()),
            part(minutes, now.minute()),
            part(seconds, now.second()),
        )?;
        Ok(PrimitiveDateTime::new(date, time))
    })
}

/// Sets the clock to what `change` makes of the time that there is, or tells both.
fn set(
    job: &JobContext<'_>,
    utc_offset: Option<UtcOffset>,
    test: bool,
    change: impl FnOnce(PrimitiveDateTime) -> Result<PrimitiveDateTime, time::error::ComponentRange>,
) -> Result<Outcome, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Execution(format!(
            "the time of the machine cannot be understood: {error}"
        ))
    };
    let old = now(job, utc_offset, "+%Y-%m-%d %H:%M:%S")?;
    let there = PrimitiveDateTime::parse(&old, BOTH).map_err(|error| failed(&error))?;
    let new = change(there).map_err(|error| Failure::Invocation(error.to_string()))?;
    let new = new.format(BOTH).map_err(|error| failed(&error))?;
    if test {
        let both = [("old", Value::from(old)), ("new", Value::from(new))];
        return Ok(Outcome::from(Value::map(both)));
    }
    let offset = utc_offset.map_or_else(String::new, |offset| format!(" {offset}"));
    job.succeed(&["date", &format!("--set={new}{offset}")], "")?;
    // So that the machine has the time after its next start; a virtual machine or a container may have no such clock.
    if Path::new(HARDWARE_CLOCK).exists()
        && let Err(failure) = job.succeed(&["hwclock", "--systohc"], "")
    {
        tracing::warn!("the clock in the hardware was not set: {failure}");
    }
    Ok(Outcome::from(true))
}

/// A time of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewTime(Time);

impl FromValue for NewTime {
    const TAKES: &'static str =
        "a time in quotes, such as \"17:31\", \"17:31:07\" or \"05:31:07 PM\"";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let text = value.as_str().map(str::trim);
        let read = text.and_then(|text| {
            let mut forms = TIMES.iter();
            forms.find_map(|form| Time::parse(text, form).ok())
        });
        read.map(Self).ok_or_else(|| Mismatch::of::<Self>(&value))
    }
}

/// A day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewDate(Date);

impl FromValue for NewDate {
    const TAKES: &'static str = "a date, such as \"2026-11-26\", \"11-26-2026\" or \"11/26/26\"";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let text = value.as_str().map(|text| with_century(text.trim()));
        let read = text.and_then(|text| {
            let mut forms = DATES.iter();
            forms.find_map(|form| Date::parse(&text, form).ok())
        });
        read.map(Self).ok_or_else(|| Mismatch::of::<Self>(&value))
    }
}

/// Returns a date whose year has four digits: two at its end are a year of this century.
fn with_century(text: &str) -> String {
    match text.rsplit_once(['-', '/']) {
        Some((day, year)) if year.len() == 2 && day.len() == 5 => {
            format!("{}20{year}", &text[..=day.len()])
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_forms_that_salt_knows() {
        let read = |text: &str| {
            let read = NewTime::from_value(text.into()).ok();
            read.map(|NewTime(time)| time.as_hms())
        };
        for (text, time) in [
            ("17:31", (17, 31, 0)),
            ("17:31:07", (17, 31, 7)),
            ("5:01", (5, 1, 0)),
            ("05:31:07 PM", (17, 31, 7)),
            ("05:31 am", (5, 31, 0)),
            ("12:00 AM", (0, 0, 0)),
        ] {
            assert_eq!(read(text), Some(time), "{text}");
        }
        for wrong in [
            "",
            "17",
            "24:00",
            "17:60",
            "13:00 PM",
            "17:31:07Z",
            "-s",
            "now",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn dates_have_the_forms_that_salt_knows() {
        let read = |text: &str| {
            let read = NewDate::from_value(text.into()).ok();
            read.map(|NewDate(date)| date.to_string())
        };
        for text in [
            "2026-11-26",
            "11-26-2026",
            "11-26-26",
            "11/26/2026",
            "11/26/26",
            "2026/11/26",
        ] {
            assert_eq!(read(text).as_deref(), Some("2026-11-26"), "{text}");
        }
        for wrong in [
            "",
            "26-11-2026",
            "2026-02-30",
            "11-26",
            "tomorrow",
            "é1-26-26",
            "2026-11-26 x",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
