//! The state machine beside a model, over random schedules and random clocks.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::SkipReason;

/// What happens between two looks at the schedule.
#[derive(Debug, Clone)]
enum Step {
    /// Time passes.
    Wait(u64),
    /// The wall clock is set, by less than a day.
    Set(i64),
    /// The oldest run ends.
    End,
    /// The daemon is started again after some seconds.
    Restart(u64),
    /// The job is disabled, or enabled.
    Enable(bool),
    /// The next run is not to take place.
    Skip,
    /// The next run is to take place so many seconds from now instead.
    Postpone(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..400u64).prop_map(Step::Wait),
        2 => (-20_000..20_000i64).prop_map(Step::Set),
        3 => Just(Step::End),
        1 => (0..5_000u64).prop_map(Step::Restart),
        1 => any::<bool>().prop_map(Step::Enable),
        1 => Just(Step::Skip),
        1 => (1..2_000u64).prop_map(Step::Postpone),
    ]
}

fn text() -> impl Strategy<Value = String> {
    let timing = prop_oneof![
        (1..200u32).prop_map(|seconds| format!("seconds: {seconds}")),
        (1..30u32).prop_map(|minutes| format!("cron: '*/{minutes} * * * *'")),
        (0..60u32, 0..24u32).prop_map(|(minute, hour)| format!("cron: '{minute} {hour} * * *'")),
        (0..24u32, 0..60u32).prop_map(|(hour, minute)| format!("when: '{hour:02}:{minute:02}'")),
        (0..24u32, 0..60u32)
            .prop_map(|(hour, minute)| format!("once: '2026-10-25T{hour:02}:{minute:02}:00'")),
    ];
    let splay = prop_oneof![Just(0u32), 1..100u32];
    (timing, splay, 1..4usize, any::<bool>()).prop_map(|(timing, splay, most, on_start)| {
        let start = if on_start { "True" } else { "False" };
        format!("{timing}, splay: {splay}, maxrunning: {most}, run_on_start: {start}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever happens to the clock and to the daemon: no due time of the wall clock is served twice, nothing runs before
    /// it is due, never more at once than may, a job that is skipped has a reason that holds, and what was asked of single runs
    /// happens once.
    #[test]
    fn no_due_time_is_served_twice_and_nothing_runs_early(
        text in text(),
        zone in prop_oneof![Just("UTC"), Just("Europe/Berlin"), Just("America/St_Johns")],
        missed in prop_oneof![Just(Missed::Skip), Just(Missed::RunOnce)],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let job = Arc::new(entry(&text));
        let is_clock = !text.starts_with("seconds");
        let zone = TimeZone::get(zone).unwrap();
        // The night in which Berlin's clocks go back.
        let (mut wall, mut elapsed) = (at("2026-10-24T21:00:00Z"), 0);
        let mut schedule = Schedule::new(zone.clone(), 7);
        schedule.start("job", Arc::clone(&job), None, missed, time(wall, elapsed));
        let mut served = BTreeSet::new();
        let (mut running, mut enabled, mut last_due) = (0, true, None::<u64>);
        // The seconds whose runs are not to take place, and the times of runs besides.
        let (mut skipped, mut added) = (Vec::new(), BTreeSet::new());
        for step in steps {
            match step {
                Step::Wait(seconds) => {
                    wall += Duration::from_secs(seconds);
                    elapsed += seconds;
                }
                Step::Set(by) => wall += jiff::SignedDuration::from_secs(by),
                Step::End if running > 0 => {
                    running -= 1;
                    schedule.ended("job");
                }
                Step::End => {}
                Step::Restart(down) => {
                    let remembered = schedule.remembered().next().map(|(_, remembered)| remembered);
                    wall += Duration::from_secs(down);
                    elapsed += down;
                    schedule = Schedule::new(zone.clone(), elapsed);
                    schedule.start("job", Arc::clone(&job), remembered, missed, time(wall, elapsed));
                    (running, enabled, last_due) = (0, true, None);
                    if missed == Missed::Skip {
                        added.retain(|at| *at > wall);
                    }
                }
                Step::Enable(enable) => {
                    if enable != enabled {
                        added.retain(|at| *at > wall);
                    }
                    enabled = enable;
                    schedule.enable_job("job", enable, time(wall, elapsed));
                }
                Step::Skip | Step::Postpone(_) => {
                    let next = schedule.status("job", time(wall, elapsed)).unwrap().next;
                    let second = |at: jiff::Timestamp| jiff::Timestamp::from_second(at.as_second()).unwrap();
                    if let Some(next) = next.map(second) {
                        let exceptions = schedule.exceptions("job").unwrap();
                        prop_assert!(exceptions.skip(next));
                        skipped.push(next);
                        if let Step::Postpone(seconds) = step {
                            let at = wall + Duration::from_secs(seconds);
                            prop_assert!(exceptions.add(at));
                            added.insert(at);
                        }
                    }
                }
            }
            let polled = schedule.poll(time(wall, elapsed));
            let come: Vec<_> = match enabled {
                true => added.extract_if(.., |at| *at <= wall).collect(),
                false => Vec::new(),
            };
            // One run for all of them, behind the one by the clock.
            let has_come = usize::from(!come.is_empty());
            let total = polled.due.len() + polled.skipped.len();
            prop_assert!((has_come..=1 + has_come).contains(&total));
            let is_added = |due| come.first() == Some(&due);
            let last = polled.due.len();
            for skip in &polled.skipped {
                if skip.reason == SkipReason::Asked {
                    let is_meant = |at: &jiff::Timestamp| {
                        // The delay of a splay is below two minutes, and an interval goes by another clock.
                        let off = skip.due.duration_since(*at).as_secs();
                        !is_clock || (-120..=1).contains(&off)
                    };
                    let meant = skipped.iter().position(is_meant);
                    prop_assert!(meant.is_some(), "{} was not to be skipped", skip.due);
                } else {
                    prop_assert_eq!(skip.reason, SkipReason::MaxRunning);
                    prop_assert!(running + polled.due.len() >= job.maxrunning);
                }
                if is_clock && !is_added(skip.due) {
                    prop_assert!(served.insert(skip.due), "{} was served twice", skip.due);
                }
            }
            for (index, due) in polled.due.iter().enumerate() {
                prop_assert!(enabled);
                running += 1;
                prop_assert!(running <= job.maxrunning);
                prop_assert!(due.due <= wall);
                if index + 1 == last && is_added(due.due) {
                    continue;
                }
                if is_clock {
                    prop_assert!(served.insert(due.due), "{} was served twice", due.due);
                } else {
                    // Due times are an interval apart, however late the schedule is looked at.
                    let interval: u64 = text.split([' ', ',']).nth(1).unwrap().parse().unwrap();
                    let ago = u64::try_from(wall.duration_since(due.due).as_secs()).unwrap();
                    let at = elapsed - ago;
                    prop_assert!(last_due.is_none_or(|last| at >= last + interval), "{last_due:?} {at}");
                    last_due = Some(at);
                }
            }
            // And what it waits for comes.
            if let Some(wait) = schedule.wait(time(wall, elapsed)) {
                prop_assert!(!wait.is_zero());
            }
        }
    }

}

proptest! {
    // Each looks at every second of two hours.
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// With a clock that nobody sets, every due time of a line of cron runs, at its second.
    #[test]
    fn every_due_time_runs_when_the_clock_is_left_alone(
        minutes in 1..60u64,
        start in 0..86_400u64,
    ) {
        let from = at("2026-11-25T00:00:00Z") + Duration::from_secs(start);
        let mut schedule = started("UTC", &format!("cron: '*/{minutes} * * * *'"), time(from, 0));
        let ran = run(&mut schedule, from, 2 * 3600);
        let expected: Vec<String> = (1..=2 * 3600)
            .map(|second| from + Duration::from_secs(second))
            .filter(|at| at.as_second() % 60 == 0 && (at.as_second() / 60 % 60) % minutes as i64 == 0)
            .map(|at| at.to_string())
            .collect();
        prop_assert_eq!(ran, expected);
    }
}

#[test]
fn machines_with_a_splay_do_not_run_at_one_time() {
    let from = at("2026-11-25T00:00:00Z");
    let mut at_once: BTreeMap<u64, usize> = BTreeMap::new();
    for seed in 0..200u64 {
        let mut schedule = Schedule::new(TimeZone::UTC, seed);
        let job = Arc::new(entry("cron: '0 1 * * *', splay: 3600"));
        schedule.start("job", job, None, Missed::Skip, time(from, 0));
        let wait = schedule.wait(time(from, 0)).unwrap();
        assert!((3600..=7200).contains(&wait.as_secs()));
        *at_once.entry(wait.as_secs()).or_default() += 1;
    }
    assert!(at_once.values().all(|count| *count <= 4), "{at_once:?}");
    let first: BTreeSet<_> = at_once.keys().take(2).collect();
    assert_eq!(first.len(), 2);
}

#[test]
fn ten_thousand_jobs_are_looked_at_in_no_time() {
    let from = at("2026-11-25T00:00:00Z");
    let mut schedule = Schedule::new(TimeZone::UTC, 1);
    let every = Arc::new(entry("seconds: 1, run_on_start: False, maxrunning: 1000"));
    let cron = Arc::new(entry("cron: '* * * * *', maxrunning: 1000"));
    for number in 0..5_000 {
        schedule.start(
            &format!("s{number}"),
            Arc::clone(&every),
            None,
            Missed::Skip,
            time(from, 0),
        );
        schedule.start(
            &format!("c{number}"),
            Arc::clone(&cron),
            None,
            Missed::Skip,
            time(from, 0),
        );
    }
    let (mut runs, began) = (0, saline_protocol::transport::Clock.now());
    for second in 1..=60 {
        runs += schedule
            .poll(time(from + Duration::from_secs(second), second))
            .due
            .len();
    }
    assert_eq!(runs, 5_000 * 60 + 5_000);
    // A second of looking for each minute of time would be too much even for a busy machine without optimisation.
    let took = saline_protocol::transport::Clock.now() - began;
    assert!(took < Duration::from_secs(30), "{took:?}");
}
