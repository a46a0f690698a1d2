//! The wall clock: time zones, daylight saving, and a clock that is set.

use super::*;
use crate::SkipReason;

const BERLIN: &str = "Europe/Berlin";

#[test]
fn a_fixed_time_in_the_hour_that_is_left_out_is_due_after_it_and_once_in_the_one_that_comes_twice()
{
    // The clock goes from 02:00 to 03:00 at 01:00 UTC.
    for text in ["cron: '30 2 * * *'", "when: '2:30am'"] {
        let spring = at("2026-03-29T00:00:00Z");
        let mut schedule = started(BERLIN, text, time(spring, 0));
        assert_eq!(
            run(&mut schedule, spring, 4 * 3600),
            ["2026-03-29T01:00:00Z"],
            "{text}"
        );
        // And from 03:00 to 02:00 at 01:00 UTC.
        let autumn = at("2026-10-24T23:00:00Z");
        let mut schedule = started(BERLIN, text, time(autumn, 0));
        assert_eq!(
            run(&mut schedule, autumn, 4 * 3600),
            ["2026-10-25T00:30:00Z"],
            "{text}"
        );
    }
}

#[test]
fn a_line_of_every_half_hour_is_due_every_half_hour_of_real_time() {
    for (from, hours) in [("2026-03-29T00:00:00Z", 3), ("2026-10-24T23:00:00Z", 4)] {
        let from = at(from);
        let mut schedule = started(BERLIN, "cron: '*/30 * * * *'", time(from, 0));
        let expected = (1..=2 * hours).map(|half| from + Duration::from_secs(1800 * half));
        let expected: Vec<String> = expected.map(|due| due.to_string()).collect();
        assert_eq!(run(&mut schedule, from, hours * 3600), expected);
    }
}

#[test]
fn a_day_of_the_week_a_time_a_date_and_a_list_of_them_are_due() {
    let from = at("2026-11-25T09:00:00Z");
    let list =
        "when: ['Wednesday 10:30am', '11:00', '2026-11-25 12:00:00', '2026-11-25T11:30:00Z']";
    let mut schedule = started(BERLIN, list, time(from, 0));
    // Berlin is an hour ahead; ten past nine there is over.
    let expected = ["09:30", "10:00", "11:00", "11:30"];
    let expected = expected.map(|time| format!("2026-11-25T{time}:00Z"));
    assert_eq!(run(&mut schedule, from, 20 * 3600), expected);
    let mut once = started("UTC", "once: '2026-11-25T09:00:05'", time(from, 0));
    assert_eq!(run(&mut once, from, 3 * 86_400), ["2026-11-25T09:00:05Z"]);
    assert_eq!(once.wait(time(from + Duration::from_secs(10), 10)), None);
}

#[test]
fn a_job_whose_times_are_over_is_known() {
    let now = time(at("2026-11-25T09:00:00Z"), 0);
    let schedule = Schedule::new(TimeZone::get(BERLIN).unwrap(), 1);
    // Berlin is an hour ahead.
    for (text, is_over) in [
        ("once: '2026-11-25T10:00:00'", true),
        ("once: '2026-11-25T10:00:01'", false),
        ("once: '2026-11-25T10:00:00', enabled: false", true),
        ("when: ['2026-11-24 12:00:00', '2026-11-23 12:00:00']", true),
        ("when: ['2026-11-24 12:00:00', '11:00']", false),
        ("hours: 1, until: '2026-11-25T10:30:00'", true),
        ("hours: 1, until: '2026-11-25T11:30:00'", false),
        ("hours: 1, enabled: false", false),
    ] {
        assert_eq!(schedule.is_over(&entry(text), now), is_over, "{text}");
    }
}

#[test]
fn a_due_time_is_served_once_however_the_clock_is_set_over_it() {
    let from = at("2026-11-25T09:59:58Z");
    let mut schedule = started("UTC", "cron: '0 * * * *'", time(from, 0));
    let mut all = Vec::new();
    // Over ten o'clock and back, in steps of minutes and of hours.
    let steps = [
        "10:00:01", "09:59:59", "10:00:00", "10:00:02", "09:30:00", "10:00:30", "09:00:00",
        "10:45:00", "09:59:59", "10:00:01",
    ];
    for (elapsed, step) in steps.into_iter().enumerate() {
        let wall = at(&format!("2026-11-25T{step}Z"));
        let polled = schedule.poll(time(wall, elapsed as u64));
        all.extend(due(&polled));
        polled.due.iter().for_each(|due| schedule.ended(&due.name));
    }
    assert_eq!(all, ["2026-11-25T10:00:00Z"]);
}

#[test]
fn a_run_that_is_skipped_does_not_take_place_and_one_that_is_postponed_does_so_later() {
    for (text, splay) in [
        ("cron: '0 * * * *'", ""),
        ("hours: 1, run_on_start: False", ""),
        ("cron: '0 * * * *'", ", splay: {start: 90, end: 90}"),
    ] {
        let from = at("2026-11-25T09:00:00Z");
        let mut schedule = started("UTC", &format!("{text}{splay}"), time(from, 0));
        let exceptions = schedule.exceptions("job").unwrap();
        // By the time at which it is due, or at which it begins.
        let skipped = match splay {
            "" => "2026-11-25T10:00:00Z",
            _ => "2026-11-25T10:01:30Z",
        };
        assert!(exceptions.skip(at(skipped)));
        assert!(exceptions.skip(at("2026-11-25T11:00:00Z")));
        assert!(exceptions.add(at("2026-11-25T11:20:00Z")));
        assert_eq!(
            run(&mut schedule, from, 4 * 3600 - 60),
            ["2026-11-25T11:20:00Z", "2026-11-25T12:00:00Z"],
            "{text}{splay}"
        );
        let status = schedule.status("job", time(from, 0)).unwrap();
        let (due, reason) = status.skipped.unwrap();
        assert_eq!(
            (due, reason),
            (at("2026-11-25T11:00:00Z"), SkipReason::Asked)
        );
    }
}

#[test]
fn a_run_besides_that_was_missed_is_told_and_runs_where_that_is_asked_for() {
    for (missed, runs) in [(Missed::Skip, 0), (Missed::RunOnce, 1)] {
        let from = at("2026-11-25T09:30:00Z");
        let mut schedule = started("UTC", "cron: '0 0 * * *'", time(from, 0));
        assert!(
            schedule
                .exceptions("job")
                .unwrap()
                .add(at("2026-11-25T10:00:00Z"))
        );
        let remembered = schedule.remembered().next().map(|(_, job)| job);
        let mut schedule = Schedule::new(TimeZone::UTC, 1);
        let (job, later) = (
            Arc::new(entry("cron: '0 0 * * *'")),
            at("2026-11-25T11:00:00Z"),
        );
        let skip = schedule.start("job", job, remembered, missed, time(later, 0));
        assert_eq!(skip.is_some(), runs == 0);
        assert_eq!(run(&mut schedule, later, 60).len(), runs);
    }
}

#[test]
fn a_step_forth_runs_a_job_once_and_tells_it_and_the_way_back_loses_nothing() {
    let from = at("2026-11-25T10:00:00Z");
    let mut schedule = started("UTC", "cron: '*/10 * * * *'", time(from, 0));
    let polled = schedule.poll(time(at("2026-11-25T12:05:00Z"), 1));
    let [late] = &polled.due[..] else {
        panic!("one run for all: {polled:?}")
    };
    assert_eq!(late.due, at("2026-11-25T10:10:00Z"));
    assert_eq!(late.late, Duration::from_secs(115 * 60));
    assert!(late.stands_for_more);
    schedule.ended("job");
    // Ten past ten comes again and is not served again; the others are served when they come.
    let mut all = Vec::new();
    for minute in 0..31 {
        let wall = from + Duration::from_secs(60 * minute);
        let polled = schedule.poll(time(wall, 2 + minute));
        all.extend(due(&polled));
        polled.due.iter().for_each(|due| schedule.ended(&due.name));
    }
    assert_eq!(all, ["2026-11-25T10:20:00Z", "2026-11-25T10:30:00Z"]);
}

#[test]
fn a_wrong_date_that_is_put_right_does_not_silence_a_job() {
    let wrong = at("2028-01-01T00:00:00Z");
    let mut schedule = started("UTC", "cron: '0 * * * *'", time(wrong, 0));
    assert_eq!(run(&mut schedule, wrong, 3 * 86_400).len(), 72);
    let right = at("2028-01-01T12:30:00Z");
    let polled = schedule.poll(time(right, 3 * 86_400));
    assert_eq!((due(&polled).len(), polled.forgot.len()), (0, 1));
    assert_eq!(run(&mut schedule, right, 3600), ["2028-01-01T13:00:00Z"]);
}

#[test]
fn an_interval_does_not_care_about_the_wall_clock() {
    let from = at("2026-11-25T10:00:00Z");
    let mut schedule = started("UTC", "seconds: 10, run_on_start: False", time(from, 0));
    let mut runs = Vec::new();
    for second in 0..=60 {
        // A day back, and a day forth.
        let wall = if second % 2 == 0 {
            from
        } else {
            at("2026-11-24T10:00:00Z")
        };
        let polled = schedule.poll(time(wall, second));
        runs.extend(polled.due.iter().map(|_| second));
        polled.due.iter().for_each(|due| schedule.ended(&due.name));
    }
    assert_eq!(runs, [10, 20, 30, 40, 50, 60]);
}

#[test]
fn after_until_and_range_hold_runs_back_and_say_so() {
    let from = at("2026-11-25T10:00:00Z");
    let text = "cron: '* * * * *', after: '2026-11-25T10:03:00', until: '2026-11-25T10:05:30'";
    let mut schedule = started("UTC", text, time(from, 0));
    let expected = ["03", "04", "05"].map(|minute| format!("2026-11-25T10:{minute}:00Z"));
    assert_eq!(run(&mut schedule, from, 3600), expected);

    let ranged = "hours: 1, range: {start: '10:30am', end: '12:30pm'}";
    let mut schedule = started("UTC", ranged, time(from, 0));
    let polled = schedule.poll(time(from, 0));
    assert_eq!(polled.skipped[0].reason, SkipReason::Range);
    let expected = ["11", "12"].map(|hour| format!("2026-11-25T{hour}:00:00Z"));
    assert_eq!(run(&mut schedule, from, 5 * 3600), expected);
    let inverted = "hours: 1, range: {start: '10:30am', end: '12:30pm', invert: True}";
    let mut schedule = started("UTC", inverted, time(from, 0));
    assert_eq!(run(&mut schedule, from, 3 * 3600).len(), 2);
}
