//! The files, and the scheduler that writes them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;

use saline_protocol::transport::{Clock, Context};

use super::*;
use crate::run_memory::RunMemory;
use crate::{ChangeError, Exceptions, MAX_EXCEPTIONS, Remembered, Scheduler, SchedulerFiles};

fn open(folder: &Path, configured: &[(&str, &str)], missed: Missed) -> Arc<Scheduler> {
    let files = SchedulerFiles {
        runs: folder.join("runs"),
        saved: Some(folder.join("saved")),
        awaits_pillar: true,
    };
    let jobs = configured.iter();
    let jobs = jobs.map(|(name, text)| ((*name).to_owned(), entry(text)));
    Arc::new(Scheduler::open(files, jobs.collect(), missed, 1, Clock))
}

/// Runs a scheduler under paused time, and returns the names of the jobs that ran.
async fn run_for(scheduler: &Arc<Scheduler>, seconds: u64) -> Vec<String> {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let context = Context::default();
    let (noted, clock) = (Arc::clone(&ran), context.clock);
    let running = Arc::clone(scheduler).run(context, move |due, _guard| {
        noted.lock().unwrap().push(due.name);
    });
    let _ = clock
        .deadline(clock.after(Duration::from_secs(seconds)), running)
        .await;
    std::mem::take(&mut *ran.lock().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_at_the_start_and_then_by_its_interval() {
    let folder = tempfile::tempdir().unwrap();
    let scheduler = open(
        folder.path(),
        &[
            ("a", "minutes: 1"),
            ("b", "minutes: 1, run_on_start: False"),
        ],
        Missed::Skip,
    );
    let ran = run_for(&scheduler, 150).await;
    assert_eq!(ran, ["a", "a", "b", "a", "b"]);
    assert_eq!(scheduler.runs(), 5);
    let mode = std::fs::metadata(folder.path().join("runs"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test(start_paused = true)]
async fn what_was_added_is_there_after_a_restart_and_the_configuration_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let configured = [("conf", "minutes: 1, run_on_start: False")];
    let scheduler = open(folder.path(), &configured, Missed::Skip);
    scheduler.add("kept", entry("minutes: 1"), true).unwrap();
    scheduler.add("lost", entry("minutes: 1"), false).unwrap();
    assert!(matches!(
        scheduler.add("conf", entry("minutes: 1"), true),
        Err(ChangeError::Exists(_))
    ));
    assert!(matches!(
        scheduler.delete("conf", true),
        Err(ChangeError::Configured(_))
    ));
    assert!(matches!(
        scheduler.delete("none", true),
        Err(ChangeError::NoSuchJob(_))
    ));
    scheduler.enable_job("conf", false, true).unwrap();
    assert_eq!(scheduler.status("conf").unwrap().next, None);
    // A job that is added waits for its first interval.
    assert_eq!(run_for(&scheduler, 61).await, ["kept", "lost"]);
    drop(scheduler);

    let scheduler = open(folder.path(), &configured, Missed::Skip);
    assert_eq!(scheduler.names(), ["conf", "kept"]);
    assert!(!scheduler.status("conf").unwrap().enabled);
    scheduler.enable(false, true).unwrap();
    assert!(run_for(&scheduler, 600).await.is_empty());
    scheduler.run_job("conf").unwrap();
    assert_eq!(
        run_for(&scheduler, 1).await,
        ["conf"],
        "what is ordered runs all the same"
    );
    scheduler.enable(true, true).unwrap();
    scheduler.enable_job("conf", true, true).unwrap();
    scheduler.delete("kept", true).unwrap();
    assert_eq!(run_for(&scheduler, 61).await, ["conf"]);
}

#[test]
fn runs_that_are_skipped_or_postponed_are_kept_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let configured = [("daily", "days: 1, run_on_start: False")];
    let scheduler = open(folder.path(), &configured, Missed::Skip);
    let next = scheduler.status("daily").unwrap().next.unwrap();
    let earlier = next - Duration::from_secs(3_600);
    scheduler.postpone_job("daily", next, earlier).unwrap();
    assert!(matches!(
        scheduler.skip_job("none", next),
        Err(ChangeError::NoSuchJob(_))
    ));
    let over = next - Duration::from_secs(2 * 86_400);
    assert!(matches!(
        scheduler.postpone_job("daily", next, over),
        Err(ChangeError::Over(_))
    ));
    drop(scheduler);
    let scheduler = open(folder.path(), &configured, Missed::Skip);
    assert_eq!(scheduler.status("daily").unwrap().next, Some(earlier));
    let many = (1..=MAX_EXCEPTIONS as u64).map(|number| {
        let at = next + Duration::from_secs(number);
        scheduler.skip_job("daily", at)
    });
    let taken = many.filter(Result::is_ok).count();
    assert_eq!(taken, MAX_EXCEPTIONS - 1, "one is skipped already");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_cannot_be_saved_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let scheduler = open(folder.path(), &[], Missed::Skip);
    // A folder stands where the file belongs: it cannot be replaced.
    std::fs::create_dir(folder.path().join("saved")).unwrap();
    let error = scheduler.add("a", entry("minutes: 1"), true).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the change cannot be saved, so nothing has changed")
    );
    assert!(scheduler.is_empty());
    // And jobs run though it cannot be noted.
    std::fs::remove_dir(folder.path().join("saved")).unwrap();
    std::fs::create_dir(folder.path().join("runs")).unwrap();
    scheduler.add("a", entry("minutes: 1"), true).unwrap();
    assert_eq!(run_for(&scheduler, 61).await, ["a"]);
}

#[test]
fn a_change_that_is_not_to_be_saved_is_over_with_a_restart_whatever_is_saved_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let configured = [("conf", "minutes: 1")];
    let scheduler = open(folder.path(), &configured, Missed::Skip);
    for name in ["disk", "gone", "off"] {
        scheduler.add(name, entry("minutes: 1"), true).unwrap();
    }
    let two_hours = entry("hours: 2");
    scheduler.modify("disk", two_hours.clone(), false).unwrap();
    scheduler.delete("gone", false).unwrap();
    scheduler.enable_job("off", false, false).unwrap();
    scheduler.enable_job("conf", false, false).unwrap();
    scheduler.enable(false, false).unwrap();
    scheduler.add("more", entry("minutes: 1"), true).unwrap();
    // Until then it holds.
    assert_eq!(scheduler.names(), ["conf", "disk", "more", "off"]);
    assert_eq!(*scheduler.status("disk").unwrap().entry, two_hours);
    assert!(!scheduler.status("off").unwrap().enabled);
    assert!(!scheduler.is_enabled());
    drop(scheduler);

    let scheduler = open(folder.path(), &configured, Missed::Skip);
    let is_as_saved = || {
        assert_eq!(scheduler.names(), ["conf", "disk", "gone", "more", "off"]);
        let disk = scheduler.status("disk").unwrap();
        assert_eq!(*disk.entry, entry("minutes: 1"));
        assert!(scheduler.status("off").unwrap().enabled);
        assert!(scheduler.status("conf").unwrap().enabled);
        assert!(scheduler.is_enabled());
    };
    is_as_saved();
    scheduler.delete("disk", false).unwrap();
    scheduler.reload();
    is_as_saved();
    // To save everything saves also that.
    scheduler.modify("disk", two_hours.clone(), false).unwrap();
    scheduler.delete("gone", false).unwrap();
    scheduler.save().unwrap();
    scheduler.enable(true, true).unwrap();
    drop(scheduler);
    let scheduler = open(folder.path(), &configured, Missed::Skip);
    assert_eq!(scheduler.names(), ["conf", "disk", "more", "off"]);
    assert_eq!(*scheduler.status("disk").unwrap().entry, two_hours);
}

#[test]
fn a_job_that_was_disabled_and_deleted_runs_when_it_is_added_again() {
    let folder = tempfile::tempdir().unwrap();
    let scheduler = open(folder.path(), &[], Missed::Skip);
    scheduler.add("job", entry("minutes: 1"), true).unwrap();
    scheduler.enable_job("job", false, true).unwrap();
    scheduler.delete("job", true).unwrap();
    scheduler.add("job", entry("minutes: 1"), true).unwrap();
    assert!(scheduler.status("job").unwrap().enabled);
    drop(scheduler);
    let scheduler = open(folder.path(), &[], Missed::Skip);
    assert!(scheduler.status("job").unwrap().enabled);
}

#[test]
fn saved_jobs_that_cannot_be_read_are_set_aside_and_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let scheduler = open(folder.path(), &[], Missed::Skip);
    scheduler.add("kept", entry("minutes: 1"), true).unwrap();
    drop(scheduler);
    let saved = folder.path().join("saved");
    let whole = std::fs::read(&saved).unwrap();
    // A link is no private file, so it is not read.
    std::fs::rename(&saved, folder.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", &saved).unwrap();
    let scheduler = open(folder.path(), &[], Missed::Skip);
    assert!(scheduler.is_empty());
    scheduler.add("new", entry("minutes: 1"), true).unwrap();
    assert_eq!(
        std::fs::read(folder.path().join("saved.damaged")).unwrap(),
        whole
    );
}

#[test]
fn runs_that_are_under_way_count_for_a_job_that_is_deleted_and_added_again() {
    let now = |seconds| time(at("2026-11-25T10:00:00Z"), seconds);
    let mut schedule = started("UTC", "seconds: 10, maxrunning: 1", now(0));
    assert_eq!(schedule.poll(now(0)).due.len(), 1);
    assert!(schedule.remove("job"));
    let again = || Arc::new(entry("seconds: 10, maxrunning: 1"));
    schedule.set("job", again(), now(1));
    let polled = schedule.poll(now(11));
    assert_eq!((polled.due.len(), polled.skipped.len()), (0, 1));
    schedule.ended("job");
    assert_eq!(schedule.poll(now(21)).due.len(), 1);
    // A run that ends while there is no such job counts no more.
    assert!(schedule.remove("job"));
    schedule.ended("job");
    schedule.set("job", again(), now(22));
    assert_eq!(schedule.status("job", now(22)).unwrap().running, 0);
}

#[test]
fn damaged_files_are_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    for bytes in [
        &b"{"[..],
        b"",
        b"\xff\xfe",
        b"[]",
        b"{\"version\": 2, \"jobs\": {}}",
        b"{\"version\": 1, \"jobs\": {\"a\": 1}}",
    ] {
        for name in ["runs", "saved"] {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        let scheduler = open(folder.path(), &[("a", "minutes: 1")], Missed::RunOnce);
        assert_eq!(scheduler.names(), ["a"]);
        for name in ["runs.damaged", "saved.damaged"] {
            assert_eq!(
                std::fs::read(folder.path().join(name)).unwrap(),
                bytes,
                "{name}"
            );
        }
    }
}

#[test]
fn what_was_due_while_the_daemon_was_down_runs_once_or_is_skipped_and_told() {
    let before = at("2026-11-25T10:00:00Z");
    let now = time(at("2026-11-25T13:30:00Z"), 0);
    for text in [
        "cron: '0 * * * *'",
        "once: '2026-11-25T12:00:00Z'",
        "hours: 1, run_on_start: False",
    ] {
        let job = Arc::new(entry(text));
        let remembered = |timing: &str| Remembered {
            timing: timing.to_owned(),
            last_run: Some(before),
            cursor: before,
            served: vec![(before, before)],
            exceptions: Exceptions::default(),
        };
        let timing = job.timing.to_string();
        let start = |timing: &str, missed| {
            let mut schedule = Schedule::new(TimeZone::UTC, 1);
            let skip = schedule.start(
                "job",
                Arc::clone(&job),
                Some(remembered(timing)),
                missed,
                now,
            );
            (skip.is_some(), schedule.poll(now).due.len())
        };
        assert_eq!(start(&timing, Missed::RunOnce), (false, 1), "{text}");
        assert_eq!(start(&timing, Missed::Skip), (true, 0), "{text}");
        // A job whose times were changed meanwhile has missed nothing.
        assert_eq!(start("every 7 s", Missed::RunOnce), (false, 0), "{text}");
    }
}

#[test]
fn what_is_remembered_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/runs");
    let (mut memory, none) = RunMemory::open(path.clone());
    assert!(none.is_empty());
    let when = at("2026-11-25T10:00:00.123456789Z");
    let jobs = [(
        "a \"job\"".to_owned(),
        Remembered {
            timing: "cron 0 * * * *".to_owned(),
            last_run: None,
            cursor: when,
            served: vec![(when, when), (Timestamp::UNIX_EPOCH, when)],
            exceptions: Exceptions {
                skipped: [when].into(),
                added: [Timestamp::UNIX_EPOCH, when].into(),
            },
        },
    )];
    memory.write(&jobs);
    let (_, read) = RunMemory::open(path);
    assert_eq!(read.into_iter().collect::<Vec<_>>(), jobs);
}

/// Jobs as a pillar has them.
fn jobs(jobs: &[(&str, &str)]) -> Vec<(String, Entry)> {
    let jobs = jobs.iter();
    jobs.map(|(name, text)| ((*name).to_owned(), entry(text)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn jobs_of_the_pillar_come_and_go_behind_those_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let configured = [("both", "hours: 1, run_on_start: False")];
    let scheduler = open(folder.path(), &configured, Missed::Skip);
    scheduler.set_of_pillar(jobs(&[("both", "minutes: 1"), ("pillar", "minutes: 1")]));
    assert_eq!(scheduler.names(), ["both", "pillar"]);
    assert_eq!(run_for(&scheduler, 65).await, ["pillar", "pillar"]);
    assert!(scheduler.is_of_pillar("pillar") && !scheduler.is_of_pillar("both"));
    assert!(scheduler.is_configured("both") && !scheduler.is_configured("pillar"));
    assert!(matches!(
        scheduler.delete("pillar", true),
        Err(ChangeError::OfPillar(_))
    ));
    assert!(matches!(
        scheduler.add("pillar", entry("minutes: 1"), true),
        Err(ChangeError::Exists(_))
    ));
    // The same pillar again changes nothing, another one does.
    scheduler.set_of_pillar(jobs(&[("both", "minutes: 1"), ("pillar", "minutes: 1")]));
    assert_eq!(run_for(&scheduler, 60).await, ["pillar"]);
    scheduler.enable_job("pillar", false, true).unwrap();
    assert_eq!(run_for(&scheduler, 120).await, [""; 0]);
    scheduler.set_of_pillar(Vec::new());
    assert_eq!(scheduler.names(), ["both"]);
    scheduler.set_of_pillar(jobs(&[("pillar", "minutes: 2")]));
    assert!(
        !scheduler.status("pillar").unwrap().enabled,
        "it is still disabled by its name"
    );
}

#[tokio::test(start_paused = true)]
async fn what_ran_is_remembered_until_the_pillar_brings_the_job_again() {
    let folder = tempfile::tempdir().unwrap();
    let hourly = [("hourly", "hours: 1, run_on_start: False")];
    let scheduler = open(folder.path(), &[], Missed::Skip);
    scheduler.set_of_pillar(jobs(&hourly));
    assert_eq!(run_for(&scheduler, 3_700).await, ["hourly"]);
    let last = scheduler.status("hourly").unwrap().last_run;
    assert!(last.is_some());
    scheduler.stop();
    drop(scheduler);

    // A start that ends before the pillar is there forgets nothing.
    let scheduler = open(folder.path(), &[("other", "minutes: 1")], Missed::Skip);
    assert_eq!(run_for(&scheduler, 1).await, ["other"]);
    scheduler.stop();
    drop(scheduler);

    let scheduler = open(folder.path(), &[], Missed::Skip);
    scheduler.set_of_pillar(jobs(&hourly));
    assert_eq!(scheduler.status("hourly").unwrap().last_run, last);
    scheduler.set_of_pillar(Vec::new());
    scheduler.set_of_pillar(jobs(&hourly));
    assert_eq!(scheduler.status("hourly").unwrap().last_run, None);
}
