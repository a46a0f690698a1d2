//! The functions that show the jobs of the schedule.

use saline_data::{Value, yaml};
use saline_functions::{Failure, function};
use saline_schedule::{ChangeError, Status};

use super::{not_done, nothing, scheduler};
use crate::JobContext;

/// Returns the mapping of a job with the keywords that Salt's functions show always.
fn shown(name: &str, status: &Status) -> Value {
    let mut job = match status.entry.to_value() {
        Value::Map(job) => job,
        other => return other,
    };
    let always = [
        ("enabled", Value::Bool(status.enabled)),
        ("jid_include", Value::Bool(true)),
        ("maxrunning", Value::from(status.entry.maxrunning as u64)),
        ("name", Value::from(name)),
    ];
    for (keyword, value) in always {
        match job.iter_mut().find(|(known, _)| known == keyword) {
            Some((_, known)) if keyword == "enabled" => *known = value,
            Some(_) => {}
            None => job.push((keyword.to_owned(), value)),
        }
    }
    Value::Map(job)
}

/// Returns the jobs of the schedule, as YAML that can be put into a configuration file, or as a mapping of names to jobs.
///
/// show_all
///     Also jobs whose names begin with two underscores.
///
/// show_disabled
///     Also jobs that do not run by the clock.
///
/// where
///     `opts` for the jobs of the configuration files alone, `pillar` for those of the pillar.
///
/// return_yaml
///     `False` returns a mapping.
///
/// CLI Example:
///
///     saline '*' schedule.list
///     saline '*' schedule.list return_yaml=False
#[function(nonblocking, in_minion)]
#[expect(
    unused_variables,
    reason = "the file and the schedule are never different"
)]
pub(super) fn list(
    job: &JobContext<'_>,
    #[default(false)] show_all: bool,
    #[default(true)] show_disabled: bool,
    r#where: Option<String>,
    #[default(true)] return_yaml: bool,
    #[default(false)] offline: bool,
) -> Result<Value, Failure> {
    let scheduler = scheduler(job)?;
    let wanted = |name: &String| match r#where.as_deref() {
        None => true,
        Some("opts") => scheduler.is_configured(name),
        Some("pillar") => scheduler.is_of_pillar(name),
        Some(_) => false,
    };
    let mut jobs = Vec::new();
    for name in scheduler.names().into_iter().filter(wanted) {
        if let Some(status) = scheduler.status(&name)
            && (show_all || !name.starts_with("__"))
            && (show_disabled || status.enabled)
        {
            let shown = shown(&name, &status);
            jobs.push((name, shown));
        }
    }
    if !scheduler.is_enabled() {
        jobs.push(("enabled".to_owned(), Value::Bool(false)));
    }
    if jobs.is_empty() {
        return Ok(Value::map([("schedule", nothing())]));
    }
    let jobs = Value::Map(jobs);
    if !return_yaml {
        return Ok(jobs);
    }
    let text = yaml::write(&Value::map([("schedule", jobs)]), None);
    Ok(Value::from_output(text))
}

/// Returns whether jobs run by the clock, or whether the named one does.
///
/// CLI Example:
///
///     saline '*' schedule.is_enabled
///     saline '*' schedule.is_enabled name=disk
#[function(nonblocking, in_minion)]
pub(super) fn is_enabled(job: &JobContext<'_>, name: Option<String>) -> Result<bool, Failure> {
    let scheduler = scheduler(job)?;
    Ok(match name {
        None => scheduler.is_enabled(),
        Some(name) => scheduler.status(&name).is_some_and(|status| status.enabled),
    })
}

/// Returns when a job runs next, in UTC; `None` for one that does not.
///
/// CLI Example:
///
///     saline '*' schedule.show_next_fire_time disk
#[function(nonblocking, in_minion)]
pub(super) fn show_next_fire_time(job: &JobContext<'_>, name: String) -> Result<Value, Failure> {
    let Some(status) = scheduler(job)?.status(&name) else {
        return Ok(not_done(&ChangeError::NoSuchJob(name)));
    };
    Ok(Value::map([
        ("result", Value::Bool(true)),
        ("next_fire_time", time(status.next)),
    ]))
}

/// Returns a job with its last and its next run, in UTC, the number of its runs that are under way, and the last run that did
/// not take place, with the reason.
///
/// CLI Example:
///
///     saline '*' schedule.job_status disk
#[function(nonblocking, in_minion)]
pub(super) fn job_status(job: &JobContext<'_>, name: String) -> Result<Value, Failure> {
    let Some(status) = scheduler(job)?.status(&name) else {
        return Ok(nothing());
    };
    let Value::Map(mut shown) = shown(&name, &status) else {
        return Ok(nothing());
    };
    shown.push(("_next_fire_time".to_owned(), time(status.next)));
    shown.push(("_last_run".to_owned(), time(status.last_run)));
    shown.push(("_running".to_owned(), Value::from(status.running as u64)));
    if let Some((at, reason)) = status.skipped {
        shown.push(("_skipped_time".to_owned(), time(Some(at))));
        shown.push(("_skip_reason".to_owned(), Value::from(reason.to_string())));
    }
    Ok(Value::Map(shown))
}

fn time(at: Option<impl ToString>) -> Value {
    at.map_or(Value::Null, |at| Value::from(at.to_string()))
}
