//! When a job is due.

use std::fmt;
use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::time_of_day::{Moment, When};

/// The shortest interval of a job.
pub(crate) const SHORTEST: Duration = Duration::from_secs(1);

/// The longest interval of a job: fifty years, so that no clock overflows.
pub(crate) const LONGEST: Duration = Duration::from_secs(50 * 365 * 86_400);

/// The times at which a job is due.
#[derive(Debug, Clone, PartialEq)]
pub enum Timing {
    /// Again and again after this time, whatever the wall clock says.
    Every(Duration),
    /// By the wall clock.
    Clock(ClockTiming),
}

/// The times of the wall clock at which a job is due.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockTiming(Times);

#[derive(Debug, Clone, PartialEq)]
enum Times {
    Cron(Box<CronLine>),
    When(Vec<When>),
}

#[derive(Debug, Clone, PartialEq)]
struct CronLine {
    text: String,
    cron: Cron,
}

impl ClockTiming {
    /// Reads a line of five fields as cron has them, or a word such as `@daily`.
    ///
    /// # Errors
    /// The reason, in words that follow "is not a line of cron: ".
    pub(crate) fn cron(text: &str) -> Result<Self, String> {
        let fields = text.split_whitespace().count();
        let is_word = text.trim_start().starts_with('@');
        if fields != 5 && !(is_word && fields == 1) {
            return Err(format!("it has {fields} fields, and such a line has five"));
        }
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            .build();
        let cron = parser.parse(text).map_err(|error| error.to_string())?;
        let line = CronLine {
            text: text.trim().to_owned(),
            cron,
        };
        // The first leap day after it is four years on, so every line that has a time at all has one soon.
        let has_time = line.next_after(Timestamp::UNIX_EPOCH, &TimeZone::UTC);
        if has_time.is_none() {
            return Err("there is no such day".to_owned());
        }
        Ok(Self(Times::Cron(Box::new(line))))
    }

    pub(crate) fn when(when: Vec<When>) -> Self {
        Self(Times::When(when))
    }

    pub(crate) fn once(moment: Moment) -> Self {
        Self(Times::When(vec![When::At(moment)]))
    }

    /// Returns the first due time after `after`; none if there is none any more.
    pub(crate) fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.0 {
            Times::Cron(line) => line.next_after(after, zone),
            Times::When(all) => all
                .iter()
                .filter_map(|when| when.next_after(after, zone))
                .min(),
        }
    }
}

impl CronLine {
    fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let after_here = after.to_zoned(zone.clone());
        let due = self.cron.find_next_occurrence(&after_here, false).ok()?;
        Some(due.timestamp()).filter(|due| *due > after)
    }
}

impl fmt::Display for Timing {
    /// Writes the timing so that two are written alike only if they are due alike.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(interval) => write!(f, "every {} s", interval.as_secs_f64()),
            Self::Clock(ClockTiming(Times::Cron(line))) => write!(f, "cron {}", line.text),
            Self::Clock(ClockTiming(Times::When(all))) => {
                for (number, when) in all.iter().enumerate() {
                    let comma = if number > 0 { ", " } else { "" };
                    match when {
                        When::At(moment) => write!(f, "{comma}at {moment}")?,
                        When::Daily(time) => write!(f, "{comma}daily at {time}")?,
                        When::Weekly(day, time) => write!(f, "{comma}{day:?} at {time}")?,
                    }
                }
                Ok(())
            }
        }
    }
}
