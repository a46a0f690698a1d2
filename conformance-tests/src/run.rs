//! Running requirements on a backend.

use std::io;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use saline_protocol::transport::Clock;

use crate::busy::was_too_busy;
use crate::check::check;
use crate::kit::{self, RawAt, SEED};
use crate::quiet::Turns;
use crate::report::{self, Entry, Report, parts};
use crate::{Backend, Need, Outcome, Requirement, Verdict, child, requirements, skips};

/// Requirements that run at once, on machines with fewer cores too: most of their time they wait.
const AT_ONCE: usize = 16;

/// Runs `requirement` on `backend`, on a runtime of its own, in a process of its own if it needs one.
/// It may take 90 s; what is still running then has failed. Where raw connections can be in two places, it is run with each.
///
/// # Panics
/// When called inside a Tokio runtime, since it blocks on one of its own.
pub fn run_one(backend: &Arc<dyn Backend>, requirement: &Requirement) -> Verdict {
    if let Some(reason) = requirement.skipped(backend.as_ref()) {
        return Verdict::Skipped(reason);
    }
    let mut gaps = backend.known_gaps().iter();
    let gap = gaps.find(|gap| gap.id == requirement.id);
    let mut runs = requirement.raw_at(backend.as_ref()).into_iter();
    let outcome = runs.try_for_each(|raw_at| run_with(backend, requirement, raw_at));
    let mut unsteady = backend.unsteady_gaps().iter();
    if let Some(gap) = unsteady.find(|gap| gap.id == requirement.id) {
        let seen = outcome.err().map(|failure| failure.to_string());
        let seen = seen.unwrap_or_else(|| "not seen this time".to_owned());
        return Verdict::KnownGap(gap.reason, seen);
    }
    match (outcome, gap) {
        (Ok(()), None) => Verdict::Pass,
        (Ok(()), Some(gap)) => Verdict::UnexpectedPass(gap.reason),
        (Err(failure), None) => Verdict::Fail(failure.to_string()),
        (Err(failure), Some(gap)) => Verdict::KnownGap(gap.reason, failure.to_string()),
    }
}

/// Runs it once, with raw connections at `raw_at`.
fn run_with(backend: &Arc<dyn Backend>, requirement: &Requirement, raw_at: RawAt) -> Outcome {
    let outcome = if requirement.needs.contains(&Need::OwnProcess) {
        child::run(backend.as_ref(), requirement, raw_at)
    } else {
        check(backend, requirement, raw_at)
    };
    outcome.map_err(|failure| match raw_at {
        RawAt::Sockets => failure,
        RawAt::Pipes => failure.within("inside of its connections"),
    })
}

/// Runs the suite on `backend` as the command line says (`-- REQ`, `--list`, `--test-threads`, as
/// of every test), writes the report if it was the whole of it, and returns what `main` returns:
/// success, unless a requirement failed. A report that cannot be written is said and is no failure.
pub fn run_all(backend: impl Backend) -> ExitCode {
    let backend: Arc<dyn Backend> = Arc::new(backend);
    if child::answer_if_asked(&backend) {
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    arguments.test_threads.get_or_insert(cores.max(AT_ONCE));
    let started = Clock.now();
    let entries = Arc::new(Mutex::new(Vec::new()));
    let turns = Arc::new(Turns::default());
    let mut order: Vec<_> = requirements::all().collect();
    // Those that wait for each other first, so that the others then run beside each other: of these the long ones first, which
    // are those that measure a process.
    order.sort_by_key(|requirement| {
        let measures = requirement.needs.contains(&Need::OwnProcess);
        (!requirement.is_exclusive(), !measures)
    });
    let mut trials: Vec<_> = order
        .into_iter()
        .map(|requirement| trial(&backend, requirement, &turns, &entries))
        .collect();
    trials.extend(skips::trial(&backend));
    if !arguments.list {
        println!("seed {} ({SEED} repeats it)", kit::seed());
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let entries = std::mem::take(&mut *entries.lock().unwrap_or_else(|e| e.into_inner()));
    if let Some(report) = report(backend.as_ref(), &arguments, started.elapsed(), entries) {
        let folder = report::folder();
        match report.and_then(|report| report.write(&folder).map(|()| report)) {
            Ok(report) => println!("{}; {}", report.summary(), folder.display()),
            Err(error) => eprintln!("the report could not be written: {error}"),
        }
    }
    conclusion.exit_code()
}

fn trial(
    backend: &Arc<dyn Backend>,
    requirement: &'static Requirement,
    turns: &Arc<Turns>,
    entries: &Arc<Mutex<Vec<Entry>>>,
) -> Trial {
    let name = format!("{}::{}", requirement.id, requirement.name);
    let skipped = requirement.skipped(backend.as_ref()).is_some();
    let (backend, turns, entries) = (Arc::clone(backend), Arc::clone(turns), Arc::clone(entries));
    Trial::test(name, move || {
        let turn = turns.wait_for(requirement);
        let mut started = Clock.now();
        let mut verdict = run_one(&backend, requirement);
        drop(turn);
        if has_to_be_alone(requirement, &verdict) {
            let _turn = turns.wait_until_alone();
            started = Clock.now();
            verdict = run_one(&backend, requirement);
        }
        let entry = Entry::new(requirement, &verdict, started.elapsed());
        entries
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .push(entry);
        told(requirement, verdict)
    })
    .with_kind(requirement.level.to_string())
    .with_ignored_flag(skipped)
}

/// Whether what was measured of a process counts for nothing, since others of the suite kept it from the cores.
fn has_to_be_alone(requirement: &Requirement, verdict: &Verdict) -> bool {
    let measures = requirement.needs.contains(&Need::OwnProcess);
    let is_void = matches!(verdict, Verdict::Fail(text) if was_too_busy(text));
    measures && is_void && !requirement.is_exclusive()
}

/// The report, when there is one to write: a part of the suite is no report on the backend.
fn report(
    backend: &dyn Backend,
    arguments: &Arguments,
    took: Duration,
    mut entries: Vec<Entry>,
) -> Option<io::Result<Report>> {
    if arguments.list {
        return None;
    }
    if let Some(run) = kit::nextest_run() {
        return parts::leave(backend, &run, entries).transpose();
    }
    let part = arguments.filter.is_some() || !arguments.skip.is_empty() || arguments.ignored;
    if part {
        return None;
    }
    for requirement in requirements::all() {
        if let Some(reason) = requirement.skipped(backend)
            && entries.iter().all(|entry| entry.id != requirement.id)
        {
            let skipped = Verdict::Skipped(reason);
            entries.push(Entry::new(requirement, &skipped, Duration::ZERO));
        }
    }
    Some(Ok(Report::new(backend, took, entries)))
}

/// The verdict as libtest tells it.
fn told(requirement: &Requirement, verdict: Verdict) -> Result<(), Failed> {
    let explain = |text: String| {
        Err(Failed::from(format!(
            "{text}\n  {} {}: {}\n  why: {}\n  look at: {}\n  seed: {}",
            requirement.id,
            requirement.level,
            requirement.sentence,
            requirement.why,
            requirement.look_at,
            kit::seed()
        )))
    };
    match verdict {
        Verdict::Pass | Verdict::Skipped(_) => Ok(()),
        Verdict::KnownGap(reason, text) => {
            println!("{}: known gap ({reason}): {text}", requirement.id);
            Ok(())
        }
        Verdict::Fail(text) => explain(text),
        Verdict::UnexpectedPass(reason) => explain(format!(
            "it is declared a known gap ({reason}) and passes: take it off the list"
        )),
    }
}
