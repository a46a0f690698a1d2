//! The functions that have jobs run by the clock or not.

use saline_data::Value;
use saline_functions::{Failure, function};
use saline_schedule::ChangeError;

use super::{changes, made, nothing, scheduler};
use crate::JobContext;

/// Has the jobs of the schedule run by the clock.
///
/// The parameters are those of `schedule.delete`.
///
/// CLI Example:
///
///     saline '*' schedule.enable
#[function(changes, in_minion)]
pub(super) fn enable(
    job: &JobContext<'_>,
    #[default(true)] persist: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    set_all(job, true, persist, test)
}

/// Has no job of the schedule run by the clock, until `schedule.enable` is called.
///
/// The parameters are those of `schedule.delete`.
///
/// CLI Example:
///
///     saline '*' schedule.disable
#[function(changes, in_minion)]
pub(super) fn disable(
    job: &JobContext<'_>,
    #[default(true)] persist: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    set_all(job, false, persist, test)
}

fn set_all(
    job: &JobContext<'_>,
    enabled: bool,
    persist: bool,
    test: bool,
) -> Result<Value, Failure> {
    let scheduler = scheduler(job)?;
    let (done, word) = words(enabled);
    let changes = match scheduler.is_enabled() == enabled {
        true => nothing(),
        false => changes("schedule", word),
    };
    let words = (
        format!("Schedule would be {word}."),
        format!("{done} schedule on minion."),
    );
    let enable = || scheduler.enable(enabled, persist);
    Ok(made(test, words, changes, || Ok(()), enable))
}

/// Returns how what was done is called, at the beginning of a sentence and within one.
fn words(enabled: bool) -> (&'static str, &'static str) {
    match enabled {
        true => ("Enabled", "enabled"),
        false => ("Disabled", "disabled"),
    }
}

/// Has a job of the schedule run by the clock again.
///
/// The parameters are those of `schedule.delete`.
///
/// CLI Example:
///
///     saline '*' schedule.enable_job disk
#[function(changes, in_minion)]
pub(super) fn enable_job(
    job: &JobContext<'_>,
    name: String,
    #[default(true)] persist: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    set_job(job, &name, true, persist, test)
}

/// Has a job of the schedule not run by the clock, also one of the configuration files.
///
/// The parameters are those of `schedule.delete`.
///
/// CLI Example:
///
///     saline '*' schedule.disable_job disk
#[function(changes, in_minion)]
pub(super) fn disable_job(
    job: &JobContext<'_>,
    name: String,
    #[default(true)] persist: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    set_job(job, &name, false, persist, test)
}

fn set_job(
    job: &JobContext<'_>,
    name: &str,
    enabled: bool,
    persist: bool,
    test: bool,
) -> Result<Value, Failure> {
    let scheduler = scheduler(job)?;
    let (done, word) = words(enabled);
    let status = scheduler.status(name);
    let changes = match status
        .as_ref()
        .is_some_and(|status| status.enabled == enabled)
    {
        true => nothing(),
        false => changes(name, word),
    };
    let words = (
        format!("Job: {name} would be {word} in schedule."),
        format!("{done} Job {name} in schedule."),
    );
    let check = || match status {
        Some(_) => Ok(()),
        None => Err(ChangeError::NoSuchJob(name.to_owned())),
    };
    let enable = || scheduler.enable_job(name, enabled, persist);
    Ok(made(test, words, changes, check, enable))
}
