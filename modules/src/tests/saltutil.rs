use saline_functions::{Failure, function};

use super::super::{JobContext, ended_before_start};
use super::*;
use crate::job::JobControl;
use saline_protocol::transport::Clock;
use std::time::Duration;

/// How long a test waits for anything.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The job that is ended, and the job that ends it.
const TARGET: &str = "20261121091409931549";
const SENDER: &str = "20261121100000000000";

/// Waits for a condition that no event reports. Returns whether it came in time.
fn wait_for(is_so: impl Fn() -> bool) -> bool {
    let deadline = Clock.after(TEST_TIMEOUT);
    while !is_so() {
        if Clock.now() >= deadline {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Runs a function for the job `TARGET` on a thread of its own, and `act` beside it once `is_so` holds
/// for that job. Returns the outcomes of both.
fn beside(
    bench: &Bench,
    (fun, arguments): (&str, Vec<Value>),
    is_so: impl Fn(&JobControl) -> bool,
    act: impl FnOnce() -> Outcome,
) -> (Outcome, Outcome) {
    let job = bench.host.running.enter(RunningJob {
        fun: fun.to_owned(),
        ..RunningJob::example(TARGET)
    });
    job.control().begin().unwrap();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| bench.call_for(&job, fun, &arguments, &[]));
        let came = wait_for(|| is_so(job.control()) || run.is_finished());
        let acted = act();
        if !wait_for(|| run.is_finished()) {
            // Otherwise the failed test would wait for the thread.
            bench.texts("saltutil.kill_job", &[TARGET]);
            panic!("{fun} goes on after {acted:?}");
        }
        assert!(came, "{fun} did not come so far");
        (run.join().unwrap(), acted)
    })
}

fn runs_a_command(job: &JobControl) -> bool {
    job.description().pid != std::process::id()
}

#[test]
fn a_command_gets_the_signal_with_its_group_and_leaves_its_output() {
    let bench = Bench::new();
    for (fun, signal, retcode) in [
        ("saltutil.kill_job", 9, 137),
        ("saltutil.term_job", 15, 143),
    ] {
        let mark = bench.folder.path().join(signal.to_string());
        let line = format!(
            "echo $$; (sleep 600 & echo $! > {0}.part; mv {0}.part {0}; wait) | cat",
            mark.display()
        );
        let ready = |job: &JobControl| runs_a_command(job) && mark.exists();
        let (run, acted) = beside(&bench, ("cmd.run", vec![line.into()]), ready, || {
            bench.texts(fun, &[TARGET])
        });
        assert_eq!(run.retcode, retcode);
        let said = format!("Signal {signal} sent to job {TARGET} at pid {}", text(&run));
        assert_eq!(acted, Outcome::from(said.as_str()));
        // The processes behind the shell have ended too, or are about to.
        let sleeper = std::fs::read_to_string(mark).unwrap();
        let stat = format!("/proc/{}/stat", sleeper.trim());
        let has_ended =
            || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        assert!(wait_for(has_ended), "process {sleeper} goes on");
    }
}

#[test]
fn a_command_may_handle_a_signal() {
    let bench = Bench::new();
    let mark = bench.folder.path().join("ready");
    let line = format!(
        "trap 'echo heard; exit 7' USR1; touch {}; while :; do sleep 0.01; done",
        mark.display()
    );
    let ready = |job: &JobControl| runs_a_command(job) && mark.exists();
    let (run, acted) = beside(&bench, ("cmd.run", vec![line.into()]), ready, || {
        bench.texts("saltutil.signal_job", &[TARGET, "SIGUSR1"])
    });
    assert!(text(&acted).starts_with(&format!("Signal 10 sent to job {TARGET} at pid ")));
    // The shell may also have reported the signal that ended its `sleep`.
    assert!(text(&run).ends_with("heard"), "{run:?}");
    assert_eq!(run.retcode, 7);
}

#[test]
fn a_wait_is_interrupted_and_names_the_job_that_ended_it() {
    let bench = Bench::new();
    let sleep = || ("test.sleep", vec![Value::Int(600)]);
    for (fun, signal, verb, retcode) in [
        ("saltutil.kill_job", 9, "killed (SIGKILL)", 137),
        ("saltutil.term_job", 15, "terminated (SIGTERM)", 143),
    ] {
        let (run, acted) = beside(&bench, sleep(), JobControl::is_waiting, || {
            bench.texts(fun, &[TARGET])
        });
        let ended = format!("This job was {verb} by job {SENDER} of user root");
        assert_eq!(run, Outcome::new(ended, retcode));
        let said = format!("Signal {signal} sent to job {TARGET}: test.sleep was interrupted");
        assert_eq!(acted, Outcome::from(said.as_str()));
    }
    let (_, acted) = beside(&bench, sleep(), JobControl::is_waiting, || {
        let acted = bench.texts("saltutil.signal_job", &[TARGET, "10"]);
        bench.texts("saltutil.kill_job", &[TARGET]);
        acted
    });
    assert_eq!(
        text(&acted),
        format!(
            "ERROR: signal 10 was not sent: job {TARGET} runs test.sleep and has no process now; \
             HUP, INT, QUIT, KILL and TERM end such a job"
        )
    );
    assert!(!acted.success());
}

#[test]
fn a_job_that_waits_for_a_thread_is_ended_before_it_begins() {
    let bench = Bench::new();
    let waiting = bench.host.running.enter(RunningJob::example(TARGET));
    let acted = bench.texts("saltutil.term_job", &[TARGET]);
    assert_eq!(
        text(&acted),
        format!("Signal 15 sent to job {TARGET}: it had not begun, and will not")
    );
    let ending = waiting.control().begin().unwrap_err();
    assert_eq!(
        Outcome::of_failure(&ended_before_start(&ending), "test.sleep", ""),
        Outcome::new(
            format!(
                "This job was terminated (SIGTERM) by job {SENDER} of user root before it began"
            ),
            143
        )
    );
}

#[test]
fn there_is_an_empty_return_when_no_such_job_runs_and_an_error_for_a_signal_that_is_none() {
    let bench = Bench::new();
    for jid in [TARGET, "nonsense"] {
        assert_eq!(bench.texts("saltutil.kill_job", &[jid]), Outcome::from(""));
    }
    let acted = bench.texts("saltutil.signal_job", &[TARGET, "SIGNONSENSE"]);
    assert_eq!(
        text(&acted),
        "ERROR executing 'saltutil.signal_job': sig: there is no signal \"SIGNONSENSE\""
    );
    let missing = bench.texts("saltutil.signal_job", &[TARGET]);
    assert!(text(&missing).contains("missing 1 required positional argument: 'sig'"));
}

/// Computes until it is told to end, and then waits.
#[function]
fn computes(context: &JobContext<'_>) -> Result<bool, Failure> {
    while context.job.ending().is_none() {
        std::thread::yield_now();
    }
    context.wait(Duration::MAX)?;
    Ok(true)
}

#[test]
fn a_function_that_computes_is_ended_when_it_waits_and_the_sender_is_told() {
    let mut bench = Bench::new();
    bench.modules = Modules::built_in().with("odd", &[&COMPUTES]);
    let fun = ("odd.computes", vec![]);
    let (run, acted) = beside(
        &bench,
        fun,
        |_| true,
        || bench.texts("saltutil.kill_job", &[TARGET]),
    );
    assert_eq!(
        text(&acted),
        format!(
            "ERROR: job {TARGET} goes on: odd.computes has no process, and cannot be interrupted \
             unless it waits or runs a command later"
        )
    );
    assert!(!acted.success());
    assert_eq!(run.retcode, 137);
}

#[test]
fn running_jobs_are_shown_with_the_pid_of_their_command() {
    let bench = Bench::new();
    let (_, acted) = beside(
        &bench,
        ("cmd.run", vec!["sleep 600".into()]),
        runs_a_command,
        || {
            let shown = bench.texts("saltutil.find_job", &[TARGET]);
            bench.texts("saltutil.kill_job", &[TARGET]);
            shown
        },
    );
    let pid = acted.value.get("pid").and_then(Value::as_i64).unwrap();
    assert_ne!(pid, i64::from(std::process::id()));
    assert_eq!(acted.value.get("jid"), Some(&Value::from(TARGET)));
    for fun in ["running", "find_job", "signal_job", "term_job", "kill_job"] {
        assert!(!bench.modules.blocks(&format!("saltutil.{fun}")));
    }
    assert!(bench.modules.blocks("cmd.run") && bench.modules.blocks("no.such"));
    assert!(!bench.modules.return_at_once());
}
