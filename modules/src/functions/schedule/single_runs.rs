//! The functions about one run of a job: now, not at all, or at another time.

use saline_data::Value;
use saline_functions::{Failure, function};
use saline_schedule::{Timestamp, read_moment};

use super::{changes, made, not_done, nothing, scheduler, told};
use crate::JobContext;

/// Has a job of the schedule run now, also one that is disabled. Its times stay as they are.
///
/// CLI Example:
///
///     saline '*' schedule.run_job disk
#[function(nonblocking, in_minion)]
#[expect(unused_variables, reason = "a job that is disabled runs in any case")]
pub(super) fn run_job(
    job: &JobContext<'_>,
    name: String,
    #[default(false)] force: bool,
) -> Result<Value, Failure> {
    Ok(match scheduler(job)?.run_job(&name) {
        Ok(()) => told(true, format!("Scheduling Job {name} on minion."), nothing()),
        Err(error) => not_done(&error),
    })
}

/// Has one run of a job not take place. That is kept over restarts.
///
/// name
///     The name of the job.
///
/// current_time
///     The second in which the run is due, or begins: `schedule.show_next_fire_time` tells the next one. A date with a time, in the
///     time zone of the machine unless it has an offset or `Z`.
///
/// time_fmt
///     How `current_time` is written, if not as `2026-12-24T18:00:00`; as in `date`.
///
/// test
///     `True` changes nothing, and tells what would be done.
///
/// CLI Example:
///
///     saline '*' schedule.skip_job backup 2026-12-24T03:00:00
#[function(changes, in_minion)]
pub(super) fn skip_job(
    job: &JobContext<'_>,
    name: String,
    current_time: String,
    time_fmt: Option<String>,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let scheduler = scheduler(job)?;
    let at = moment("current_time", &current_time, time_fmt.as_deref())?;
    let words = (
        format!("Job: {name} would be skipped in schedule."),
        format!("Added Skip Job {name} in schedule."),
    );
    let check = || scheduler.check_exceptions(&name, &[at]);
    let skip = || scheduler.skip_job(&name, at);
    let changes = changes(&name, format!("skipped at {at}"));
    Ok(made(test, words, changes, check, skip))
}

/// Has one run of a job take place at another time. That is kept over restarts.
///
/// name
///     The name of the job.
///
/// current_time
///     The second in which the run is due, or begins, as in `schedule.skip_job`.
///
/// new_time
///     When it is to take place instead.
///
/// time_fmt
///     How both are written, if not as `2026-12-24T18:00:00`; as in `date`.
///
/// test
///     `True` changes nothing, and tells what would be done.
///
/// CLI Example:
///
///     saline '*' schedule.postpone_job backup 2026-12-24T03:00:00 2026-12-27T03:00:00
#[function(changes, in_minion)]
pub(super) fn postpone_job(
    job: &JobContext<'_>,
    name: String,
    current_time: String,
    new_time: String,
    time_fmt: Option<String>,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let scheduler = scheduler(job)?;
    let at = moment("current_time", &current_time, time_fmt.as_deref())?;
    let instead = moment("new_time", &new_time, time_fmt.as_deref())?;
    let words = (
        format!("Job: {name} would be postponed in schedule."),
        format!("Postponed Job {name} in schedule."),
    );
    let check = || scheduler.check_exceptions(&name, &[at, instead]);
    let postpone = || scheduler.postpone_job(&name, at, instead);
    let changes = changes(&name, format!("postponed from {at} to {instead}"));
    Ok(made(test, words, changes, check, postpone))
}

fn moment(parameter: &str, text: &str, format: Option<&str>) -> Result<Timestamp, Failure> {
    read_moment(text, format).ok_or_else(|| {
        let takes = match format {
            Some(format) => format!("a time that is written as {format:?}"),
            None => "a date with a time such as 2026-12-24T18:00:00".to_owned(),
        };
        Failure::Invocation(format!("{parameter:?} takes {takes}, not {text:?}"))
    })
}
