//! A job of a schedule, read from a mapping with Salt's keywords.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use saline_data::{Packed, Value};

use crate::skip_reason::SkipReason;
use crate::time_of_day::{DayRange, Moment, When, time_of_day};
use crate::timing::{ClockTiming, LONGEST, SHORTEST, Timing};

/// The most jobs of one schedule.
pub const MAX_ENTRIES: usize = 10_000;

/// The longest name of a job or of a function, in bytes.
const MAX_NAME: usize = 256;

/// The most that a job may come to, packed, in bytes.
const MAX_ENTRY: usize = 64 * 1024;

/// The most times that one job may list in `when`.
const MAX_WHEN: usize = 256;

/// The keywords of a job.
pub const KEYWORDS: [&str; 21] = [
    "after",
    "args",
    "cron",
    "days",
    "enabled",
    "function",
    "hours",
    "jid_include",
    "kwargs",
    "maxrunning",
    "metadata",
    "minutes",
    "name",
    "once",
    "range",
    "return_job",
    "run_on_start",
    "seconds",
    "splay",
    "until",
    "when",
];

/// Keywords of Salt that would change what a job does, and have no counterpart here.
const UNSUPPORTED: [&str; 7] = [
    "once_fmt",
    "return_config",
    "return_kwargs",
    "returner",
    "run_after_skip_range",
    "skip_during_range",
    "skip_explicit",
];

const INTERVALS: [(&str, f64); 4] = [
    ("seconds", 1.0),
    ("minutes", 60.0),
    ("hours", 3_600.0),
    ("days", 86_400.0),
];

/// The reason why a mapping is not a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EntryError {
    /// The keyword that is wrong; none when the mapping as a whole is.
    pub keyword: Option<String>,
    /// Whether there is no such keyword.
    pub is_unknown: bool,
    /// What is wrong, in one line.
    pub message: String,
}

impl EntryError {
    fn whole(message: impl Into<String>) -> Self {
        Self {
            keyword: None,
            is_unknown: false,
            message: message.into(),
        }
    }

    fn at(keyword: &str, message: impl Into<String>) -> Self {
        Self {
            keyword: Some(keyword.to_owned()),
            is_unknown: false,
            message: message.into(),
        }
    }

    fn takes(keyword: &str, takes: &str) -> Self {
        Self::at(keyword, format!("{keyword:?} takes {takes}"))
    }
}

/// A job of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The function that runs, `module.function`.
    pub function: String,
    /// The positional arguments.
    pub args: Vec<Value>,
    /// The named arguments.
    pub kwargs: Vec<(String, Value)>,
    /// When the job is due.
    pub timing: Timing,
    /// The shortest and the longest delay after the due time, of which each run has a random one.
    pub splay: Option<(Duration, Duration)>,
    /// How many runs of the job may be under way at once.
    pub maxrunning: usize,
    /// Whether a job with an interval runs when the daemon starts too.
    pub run_on_start: bool,
    /// Whether the return is sent to the master.
    pub return_job: bool,
    /// A mapping that goes with the return.
    pub metadata: Option<Value>,
    /// Whether the job runs by the clock at all.
    pub enabled: bool,
    after: Option<Moment>,
    until: Option<Moment>,
    range: Option<DayRange>,
    /// The mapping as it was given.
    written: Vec<(String, Value)>,
}

impl Entry {
    /// Reads the job `name`.
    ///
    /// # Errors
    /// The first mistake.
    pub fn read(name: &str, value: &Value) -> Result<Self, EntryError> {
        check_name(name)?;
        let Value::Map(entries) = value else {
            return Err(EntryError::whole(
                "a job is a mapping with a function and with the times at which it runs",
            ));
        };
        if Packed::pack(value).as_bytes().len() > MAX_ENTRY {
            return Err(EntryError::whole(format!(
                "a job has at most {MAX_ENTRY} bytes"
            )));
        }
        for (keyword, _) in entries {
            check_keyword(keyword)?;
        }
        // As in YAML, a keyword without a value is one that is not there.
        let get = |keyword: &str| value.get(keyword).filter(|value| **value != Value::Null);
        let flag = |keyword: &str, default: bool| match get(keyword) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(EntryError::takes(keyword, "True or False")),
        };
        let moment = |keyword: &str| match get(keyword) {
            None => Ok(None),
            Some(value) => {
                let read = value.as_str().and_then(Moment::parse);
                let takes = "a date with a time such as '2026-11-25T17:00:00'";
                read.map(Some)
                    .ok_or_else(|| EntryError::takes(keyword, takes))
            }
        };
        if get("name").is_some_and(|given| given.as_str() != Some(name)) {
            return Err(EntryError::at(
                "name",
                "\"name\" is not the name of the job",
            ));
        }
        flag("jid_include", true)?;
        let args = match get("args") {
            None => Vec::new(),
            Some(Value::List(values)) => values.clone(),
            Some(_) => return Err(EntryError::takes("args", "a list")),
        };
        let kwargs = match get("kwargs") {
            None => Vec::new(),
            Some(Value::Map(entries)) => entries.clone(),
            Some(_) => return Err(EntryError::takes("kwargs", "a mapping")),
        };
        let metadata = match get("metadata") {
            None => None,
            Some(value @ Value::Map(_)) => Some(value.clone()),
            Some(_) => return Err(EntryError::takes("metadata", "a mapping")),
        };
        let maxrunning = match get("maxrunning") {
            None => 1,
            Some(value) => value
                .as_i64()
                .and_then(|most| usize::try_from(most).ok())
                .filter(|most| (1..=1_000).contains(most))
                .ok_or_else(|| EntryError::takes("maxrunning", "a number from 1 to 1000"))?,
        };
        Ok(Self {
            function: function(get("function"))?,
            args,
            kwargs,
            timing: timing(&get)?,
            splay: get("splay").map(splay).transpose()?,
            maxrunning,
            run_on_start: flag("run_on_start", true)?,
            return_job: flag("return_job", true)?,
            metadata,
            enabled: flag("enabled", true)?,
            after: moment("after")?,
            until: moment("until")?,
            range: get("range").map(range).transpose()?,
            written: entries.clone(),
        })
    }

    /// Returns the mapping of the job as it was given.
    pub fn to_value(&self) -> Value {
        Value::Map(self.written.clone())
    }

    /// Returns the same job, which runs by the clock.
    #[must_use]
    pub(crate) fn enabled(&self) -> Self {
        let mut enabled = self.clone();
        enabled.enabled = true;
        enabled.written.retain(|(keyword, _)| keyword != "enabled");
        enabled
    }

    /// Returns the earliest time at which a run may be due, if there is one.
    pub(crate) fn not_before(&self, zone: &TimeZone) -> Option<Timestamp> {
        self.after?.instant(zone)
    }

    /// Returns why the job does not run at `now`, though it is due.
    pub(crate) fn hinders(&self, now: Timestamp, zone: &TimeZone) -> Option<SkipReason> {
        let instant = |moment: Option<Moment>| moment?.instant(zone);
        if instant(self.after).is_some_and(|after| now < after) {
            return Some(SkipReason::After);
        }
        if instant(self.until).is_some_and(|until| now > until) {
            return Some(SkipReason::Until);
        }
        let is_outside = self.range.is_some_and(|range| !range.includes(now, zone));
        is_outside.then_some(SkipReason::Range)
    }

    /// Whether no run is due at `at` or later.
    pub(crate) fn is_over(&self, at: Timestamp, zone: &TimeZone) -> bool {
        let until = self.until.and_then(|until| until.instant(zone));
        until.is_some_and(|until| at > until)
    }
}

fn check_name(name: &str) -> Result<(), EntryError> {
    let is_name = (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control);
    match is_name {
        true => Ok(()),
        false => Err(EntryError::whole(format!(
            "the name of a job has 1 to {MAX_NAME} bytes, and no control characters"
        ))),
    }
}

fn check_keyword(keyword: &str) -> Result<(), EntryError> {
    if KEYWORDS.contains(&keyword) {
        return Ok(());
    }
    if UNSUPPORTED.contains(&keyword) {
        let message = format!("keyword {keyword:?} of Salt is not supported: remove it");
        return Err(EntryError::at(keyword, message));
    }
    Err(EntryError {
        is_unknown: true,
        ..EntryError::at(keyword, format!("unknown keyword {keyword:?}"))
    })
}

fn function(given: Option<&Value>) -> Result<String, EntryError> {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    match given {
        None => Err(EntryError::whole("a job needs a function")),
        Some(Value::Text(name))
            if name.len() <= MAX_NAME && name.contains('.') && name.chars().all(is_of_a_name) =>
        {
            Ok(name.clone())
        }
        Some(_) => Err(EntryError::takes(
            "function",
            "the name of a function such as \"test.ping\"",
        )),
    }
}

/// Returns a number, also when it stands in quotes.
#[allow(clippy::cast_precision_loss, reason = "a number of seconds")]
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Int(number) => *number as f64,
        Value::UInt(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Text(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (number.is_finite() && number >= 0.0).then_some(number)
}

fn timing<'a>(get: &impl Fn(&str) -> Option<&'a Value>) -> Result<Timing, EntryError> {
    let given = |keyword: &&str| get(keyword).is_some();
    let kinds: Vec<&str> = ["seconds", "minutes", "hours", "days"]
        .into_iter()
        .find(|keyword| get(keyword).is_some())
        .into_iter()
        .chain(["cron", "when", "once"].into_iter().filter(given))
        .collect();
    match kinds[..] {
        [] => Err(EntryError::whole(
            "a job needs a time: seconds, minutes, hours, days, cron, when or once",
        )),
        [first, second, ..] => Err(EntryError::at(
            second,
            format!("a job has one kind of time, not both {first:?} and {second:?}"),
        )),
        ["cron"] => {
            let text = get("cron").and_then(Value::as_str);
            let text = text.ok_or_else(|| {
                EntryError::takes("cron", "a line of five fields such as '*/5 * * * *'")
            })?;
            let line = ClockTiming::cron(text);
            let line = line.map_err(|why| {
                EntryError::at("cron", format!("{text:?} is not a line of cron: {why}"))
            })?;
            Ok(Timing::Clock(line))
        }
        ["when"] => when(get("when")).map(Timing::Clock),
        ["once"] => {
            let moment = get("once").and_then(Value::as_str).and_then(Moment::parse);
            let takes = "a date with a time such as '2026-11-25T17:00:00'";
            let moment = moment.ok_or_else(|| EntryError::takes("once", takes))?;
            Ok(Timing::Clock(ClockTiming::once(moment)))
        }
        [keyword] => {
            let mut seconds = 0.0;
            for (name, unit) in INTERVALS {
                if let Some(value) = get(name) {
                    let number = number(value);
                    let number = number.ok_or_else(|| EntryError::takes(name, "a number"))?;
                    seconds += number * unit;
                }
            }
            let interval = Duration::try_from_secs_f64(seconds).ok();
            let interval = interval.filter(|interval| (SHORTEST..=LONGEST).contains(interval));
            interval.map(Timing::Every).ok_or_else(|| {
                let message = "the interval of a job is between one second and fifty years";
                EntryError::at(keyword, message)
            })
        }
    }
}

fn when(given: Option<&Value>) -> Result<ClockTiming, EntryError> {
    let takes = || {
        EntryError::takes(
            "when",
            "a time such as '5:00pm', 'Monday 17:00' or '2026-11-25T17:00:00' in quotes, or a list of them",
        )
    };
    let texts: Vec<&Value> = match given {
        Some(Value::List(values)) if (1..=MAX_WHEN).contains(&values.len()) => {
            values.iter().collect()
        }
        Some(value @ Value::Text(_)) => vec![value],
        _ => return Err(takes()),
    };
    let read = |value: &Value| value.as_str().and_then(When::parse);
    let when: Option<Vec<When>> = texts.into_iter().map(read).collect();
    when.map(ClockTiming::when).ok_or_else(takes)
}

fn splay(given: &Value) -> Result<(Duration, Duration), EntryError> {
    let takes = || {
        EntryError::takes(
            "splay",
            "a number of seconds, or a mapping of `start` and `end`",
        )
    };
    let seconds = |value: Option<&Value>| {
        let read = value.and_then(number);
        let read = read.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        read.filter(|splay| *splay <= LONGEST).ok_or_else(takes)
    };
    let (start, end) = match given {
        Value::Map(entries) => {
            if entries
                .iter()
                .any(|(name, _)| name != "start" && name != "end")
            {
                return Err(takes());
            }
            (seconds(given.get("start"))?, seconds(given.get("end"))?)
        }
        number => (Duration::ZERO, seconds(Some(number))?),
    };
    match start <= end {
        true => Ok((start, end)),
        false => Err(takes()),
    }
}

fn range(given: &Value) -> Result<DayRange, EntryError> {
    let takes = || {
        EntryError::takes(
            "range",
            "a mapping of `start` and `end`, which are times of a day such as '8:00am', and perhaps `invert`",
        )
    };
    let Value::Map(entries) = given else {
        return Err(takes());
    };
    let is_known =
        |(name, _): &(String, Value)| ["start", "end", "invert"].contains(&name.as_str());
    if !entries.iter().all(is_known) {
        return Err(takes());
    }
    let time = |name: &str| {
        let time = given.get(name).and_then(Value::as_str);
        time.and_then(time_of_day).ok_or_else(takes)
    };
    let invert = match given.get("invert") {
        None => false,
        Some(Value::Bool(invert)) => *invert,
        Some(_) => return Err(takes()),
    };
    Ok(DayRange {
        start: time("start")?,
        end: time("end")?,
        invert,
    })
}
