//! Times as people write them in a schedule: `5:00pm`, `Monday 17:00`, `2026-11-25T17:00:00`.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};

/// A date with a time, on the clock of this machine or with an offset of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// In the time zone of this machine.
    Local(DateTime),
    /// With an offset or `Z`.
    Instant(Timestamp),
}

impl Moment {
    /// Reads `2026-11-25T17:00:00`, with a space for the `T`, without the time (midnight), or with an offset.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(instant) = text.parse::<Timestamp>() {
            return Some(Self::Instant(instant));
        }
        // A text with a name of a zone behind it is not one of ours.
        if text.contains('[') {
            return None;
        }
        text.parse::<DateTime>().ok().map(Self::Local)
    }

    /// Returns the instant in `zone`; none beyond the years that are supported.
    pub(crate) fn instant(self, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Instant(instant) => Some(instant),
            Self::Local(local) => instant(local, zone),
        }
    }
}

/// Reads a date with a time, as [`strftime`](jiff::fmt::strtime) writes it in `format` if there is one. It is on the clock of
/// this machine unless it has an offset; none when it is no such time.
pub fn read_moment(text: &str, format: Option<&str>) -> Option<Timestamp> {
    let moment = match format {
        Some(format) => Moment::Local(DateTime::strptime(format, text).ok()?),
        None => Moment::parse(text)?,
    };
    moment.instant(&TimeZone::system())
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(local) => local.fmt(f),
            Self::Instant(instant) => instant.fmt(f),
        }
    }
}

/// Returns the instant of a local time. One that does not exist, since the clock is put forward over it, is the first
/// instant after the change; of one that exists twice it is the first.
fn instant(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_zoned(local);
    let is_gap = matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. });
    let earlier = ambiguous.earlier().ok()?.timestamp();
    match is_gap {
        false => Some(earlier),
        true => Some(zone.following(earlier).next()?.timestamp()),
    }
}

/// One `when` of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Once, at this moment.
    At(Moment),
    /// Every day at this time.
    Daily(Time),
    /// Every week, on this day at this time.
    Weekly(Weekday, Time),
}

impl When {
    /// Reads a date with a time, a time, or a day of the week with a time.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(time) = time_of_day(text) {
            return Some(Self::Daily(time));
        }
        if let Some((day, time)) = text.split_once([' ', '\t'])
            && let Some(day) = weekday(day)
        {
            return Some(Self::Weekly(day, time_of_day(time)?));
        }
        Moment::parse(text).map(Self::At)
    }

    /// Returns the first time after `after`; none if there is none.
    pub(crate) fn next_after(self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let (day, time) = match self {
            Self::At(moment) => return moment.instant(zone).filter(|due| *due > after),
            Self::Daily(time) => (None, time),
            Self::Weekly(day, time) => (Some(day), time),
        };
        let mut date: Date = after.to_zoned(zone.clone()).date();
        // A week, and the day itself if its time is over.
        for _ in 0..9 {
            if day.is_none_or(|day| date.weekday() == day)
                && let Some(due) = instant(date.to_datetime(time), zone)
                && due > after
            {
                return Some(due);
            }
            date = date.tomorrow().ok()?;
        }
        None
    }
}

/// Reads a time of a day: `17:00`, `17:00:30`, `5:00pm` or `5pm`.
pub(crate) fn time_of_day(text: &str) -> Option<Time> {
    let lower = text.trim().to_ascii_lowercase();
    let half = [("am", 0), ("pm", 12)].into_iter().find_map(|(word, add)| {
        let digits = lower.strip_suffix(word)?;
        Some((digits.trim_end().to_owned(), add))
    });
    let (digits, add) = match half {
        Some((digits, add)) => (digits, Some(add)),
        None => (lower, None),
    };
    let parts: Vec<&str> = digits.split(':').collect();
    // A number alone may be anything.
    if parts.len() > 3 || (parts.len() == 1 && add.is_none()) {
        return None;
    }
    let number = |at: usize| -> Option<i8> {
        let part = parts.get(at).copied().unwrap_or("0");
        let is_number = (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| part.parse().ok())?
    };
    let hour = match (number(0)?, add) {
        (hour, None) => hour,
        (12, Some(add)) => add,
        (hour @ 1..=11, Some(add)) => hour + add,
        _ => return None,
    };
    Time::new(hour, number(1)?, number(2)?, 0).ok()
}

fn weekday(word: &str) -> Option<Weekday> {
    let word = word.trim_end_matches(',').to_ascii_lowercase();
    let days = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    let mut days = days.into_iter();
    days.find(|(name, _)| word == *name || word == name[..3])
        .map(|(_, day)| day)
}

/// The part of each day in which a job may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DayRange {
    pub(crate) start: Time,
    pub(crate) end: Time,
    /// Whether the job runs outside of it instead.
    pub(crate) invert: bool,
}

impl DayRange {
    /// Whether the job may run at this instant.
    pub(crate) fn includes(&self, at: Timestamp, zone: &TimeZone) -> bool {
        let time = at.to_zoned(zone.clone()).time();
        let is_inside = match self.start <= self.end {
            true => self.start <= time && time <= self.end,
            // Over midnight.
            false => time >= self.start || time <= self.end,
        };
        is_inside != self.invert
    }
}
