//! `system`: restarts the machine, and shuts it down; its time, and how it is called.

mod clock;
mod computer;
mod set_clock;

use std::path::Path;
use std::time::Duration;

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};
use saline_messages::{PlannedEnd, RETCODE_INTERRUPTED};
use saline_protocol::transport::Clock;

use crate::command::Command;
use crate::{Functions, JobContext, Outcome, planned_end};

pub(super) const FUNCTIONS: Functions = &[
    &computer::GET_COMPUTER_DESC,
    &computer::GET_COMPUTER_NAME,
    &clock::GET_SYSTEM_DATE,
    &clock::GET_SYSTEM_DATE_TIME,
    &clock::GET_SYSTEM_TIME,
    &HALT,
    &POWEROFF,
    &REBOOT,
    &REBOOT_REQUIRED,
    &set_clock::SET_SYSTEM_DATE,
    &set_clock::SET_SYSTEM_DATE_TIME,
    &set_clock::SET_SYSTEM_TIME,
    &SHUTDOWN,
    &SHUTDOWN_ABORT,
];

/// The file by which Debian's packages say that the machine should be restarted.
const REQUIRED: &str = "/var/run/reboot-required";

/// How long the program may take to plan what the machine does.
const TIME_TO_PLAN: Duration = Duration::from_secs(60);

/// Restarts the machine. Returns `True` once that is planned.
///
/// at_time
///     The number of minutes until then; at once by default. `system.shutdown_abort` cancels it meanwhile.
///
/// test
///     `True` returns what would happen, and changes nothing.
///
/// CLI Example:
///
///     saline '*' system.reboot
///     saline '*' system.reboot at_time=5
#[function(changes, acts_once, in_minion)]
fn reboot(
    job: &JobContext<'_>,
    at_time: Option<Minutes>,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    plan(job, "reboot", "-r", at_time, test)
}

/// Shuts the machine down and turns it off. The parameters and the return are those of `system.reboot`.
///
/// CLI Example:
///
///     saline '*' system.shutdown at_time=5
#[function(changes, acts_once, in_minion)]
fn shutdown(
    job: &JobContext<'_>,
    at_time: Option<Minutes>,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    plan(job, "poweroff", "-P", at_time, test)
}

/// Shuts the machine down at once and turns it off. Returns `True`.
///
/// CLI Example:
///
///     saline '*' system.poweroff
#[function(changes, acts_once, in_minion)]
fn poweroff(job: &JobContext<'_>, #[default(false)] test: bool) -> Result<Outcome, Failure> {
    plan(job, "poweroff", "-P", None, test)
}

/// Shuts the machine down at once, and leaves it turned on. Returns `True`.
///
/// CLI Example:
///
///     saline '*' system.halt
#[function(changes, acts_once, in_minion)]
fn halt(job: &JobContext<'_>, #[default(false)] test: bool) -> Result<Outcome, Failure> {
    plan(job, "halt", "-H", None, test)
}

/// Cancels what `system.reboot` or `system.shutdown` planned for later. Returns `True`, also if nothing was planned.
///
/// CLI Example:
///
///     saline '*' system.shutdown_abort
#[function(changes)]
fn shutdown_abort(job: &JobContext<'_>, #[default(false)] test: bool) -> Result<Outcome, Failure> {
    if test {
        return Ok(Outcome::from(true));
    }
    let cancelled = run(job, &["shutdown", "-c"])?;
    forget(&job.host.cache_dir);
    Ok(cancelled)
}

/// Whether a package that was installed waits for the machine to be restarted. Debian's packages say so in
/// `/var/run/reboot-required`.
///
/// CLI Example:
///
///     saline '*' system.reboot_required
#[function(nonblocking)]
fn reboot_required(_: &JobContext<'_>) -> bool {
    Path::new(REQUIRED).exists()
}

/// A number of minutes; within a year.
#[derive(Debug, Clone, Copy)]
struct Minutes(u64);

impl FromValue for Minutes {
    const TAKES: &'static str = "a number of minutes of at most a year";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match u64::from_value(value.clone()) {
            Ok(minutes @ 0..=525_600) => Ok(Self(minutes)),
            _ => Err(Mismatch::of::<Self>(&value)),
        }
    }
}

fn plan(
    job: &JobContext<'_>,
    action: &str,
    option: &str,
    at_time: Option<Minutes>,
    test: bool,
) -> Result<Outcome, Failure> {
    let at = match at_time {
        Some(Minutes(minutes @ 1..)) => format!("+{minutes}"),
        _ => "now".to_owned(),
    };
    if test {
        let plan = [
            ("action", Value::from(action)),
            ("at_time", Value::from(at)),
        ];
        return Ok(Outcome::from(Value::map(plan)));
    }
    let end = match option {
        "-r" => PlannedEnd::Reboot,
        _ => PlannedEnd::PowerOff,
    };
    let Minutes(minutes) = at_time.unwrap_or(Minutes(0));
    let then = Clock.wall() + Duration::from_secs(minutes * 60);
    let cache_dir = &job.host.cache_dir;
    // Before, since the minion may be stopped at once. Without the note the master sees a minion that stops, and no more.
    if let Err(error) = planned_end::note(cache_dir, end, then) {
        tracing::warn!("the master will not be told that the machine's end was planned: {error}");
    }
    match run(job, &["shutdown", option, &at]) {
        // systemd was quicker to stop the minion than the program to end.
        Err(Failure::Ended { retcode, .. }) if at == "now" && retcode == RETCODE_INTERRUPTED => {
            Ok(Outcome::from(true))
        }
        Ok(planned) => Ok(planned),
        Err(failed) => {
            forget(cache_dir);
            Err(failed)
        }
    }
}

/// Forgets what was noted of the machine's end.
fn forget(cache_dir: &Path) {
    if let Err(error) = planned_end::forget(cache_dir) {
        tracing::warn!("the note of the machine's end is still there: {error}");
    }
}

fn run(job: &JobContext<'_>, words: &[&str]) -> Result<Outcome, Failure> {
    let done = job.run(&Command {
        argv: words.iter().map(|word| (*word).to_owned()).collect(),
        timeout: Some(TIME_TO_PLAN),
        merged: true,
        ..Command::default()
    })?;
    if done.retcode == 0 && !done.timed_out {
        return Ok(Outcome::from(true));
    }
    let said = done.stdout.into_bytes().map_err(Failure::Execution)?;
    Err(Failure::Execution(format!(
        "{} failed: {}",
        words.join(" "),
        String::from_utf8_lossy(said.trim_ascii())
    )))
}
