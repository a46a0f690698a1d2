//! Tests of the schedule.

mod clock;
mod entries;
mod files;
mod model;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use saline_data::{Value, yaml};

use crate::{Entry, Missed, Polled, Schedule, Time};

fn entry(text: &str) -> Entry {
    let text = format!("{{function: test.ping, {text}}}");
    let value: Value = yaml::parse(&text).unwrap();
    Entry::read("job", &value).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn time(wall: Timestamp, seconds: u64) -> Time {
    Time {
        wall,
        elapsed: Duration::from_secs(seconds),
    }
}

/// A schedule with one job that was added at its start.
fn started(zone: &str, text: &str, now: Time) -> Schedule {
    let zone = TimeZone::get(zone).unwrap();
    let mut schedule = Schedule::new(zone, 1);
    schedule.start("job", Arc::new(entry(text)), None, Missed::Skip, now);
    schedule
}

/// Returns when the runs of these were due.
fn due(polled: &Polled) -> Vec<String> {
    polled.due.iter().map(|due| due.due.to_string()).collect()
}

/// Runs a schedule by the wall clock from `from` on, a second at a time, and returns the due times of its runs.
fn run(schedule: &mut Schedule, from: Timestamp, seconds: u64) -> Vec<String> {
    let mut all = Vec::new();
    for second in 0..=seconds {
        let wall = from + Duration::from_secs(second);
        let polled = schedule.poll(time(wall, second));
        all.extend(due(&polled));
        polled.due.iter().for_each(|due| schedule.ended(&due.name));
    }
    all
}
