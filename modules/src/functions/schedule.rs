//! `schedule`: the jobs that the minion runs by the clock.

use std::sync::Arc;

use saline_config::nearest;
use saline_data::{Value, yaml};
use saline_functions::{Failure, Mapping, function};
use saline_schedule::{ChangeError, Entry, EntryError, KEYWORDS, Scheduler, Status};

use crate::change::change;
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[
    &LIST,
    &ADD,
    &MODIFY,
    &DELETE,
    &PURGE,
    &ENABLE,
    &DISABLE,
    &ENABLE_JOB,
    &DISABLE_JOB,
    &RUN_JOB,
    &SAVE,
    &RELOAD,
    &IS_ENABLED,
    &SHOW_NEXT_FIRE_TIME,
    &JOB_STATUS,
];

/// The keywords that say when a job is due: a job has those of one kind.
const TIMES: [&str; 7] = [
    "seconds", "minutes", "hours", "days", "cron", "when", "once",
];

fn scheduler<'a>(job: &'a JobContext<'_>) -> Result<&'a Arc<Scheduler>, Failure> {
    job.host.schedule.as_ref().ok_or_else(|| {
        Failure::Execution(
            "the schedule belongs to the running minion: ask it with `saline`".to_owned(),
        )
    })
}

/// Returns what Salt's functions return of a change.
fn told(result: bool, comment: String, changes: Value) -> Value {
    Value::map([
        ("comment", Value::from(comment)),
        ("result", Value::Bool(result)),
        ("changes", changes),
    ])
}

/// Returns what is told of a change that was made, or only would be.
fn done(
    test: bool,
    (would, did): (&str, &str),
    changed: Result<(), ChangeError>,
    changes: Value,
) -> Value {
    match (changed, test) {
        (Err(error), _) => told(false, error.to_string(), Value::Map(Vec::new())),
        (Ok(()), true) => told(true, would.to_owned(), changes),
        (Ok(()), false) => told(true, did.to_owned(), changes),
    }
}

fn changes(name: &str, what: impl Into<Value>) -> Value {
    Value::map([(name, what.into())])
}

fn refused(error: &EntryError) -> Failure {
    let near = nearest(error.keyword.as_deref().unwrap_or_default(), KEYWORDS);
    let hint = match near.filter(|_| error.is_unknown) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => String::new(),
    };
    Failure::Invocation(format!("{error}{hint}"))
}

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
///     `opts` for the jobs of the configuration files alone. There is no pillar.
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
fn list(
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
    if jobs.is_empty() {
        return Ok(Value::map([("schedule", Value::Map(Vec::new()))]));
    }
    let jobs = Value::Map(jobs);
    if !return_yaml {
        return Ok(jobs);
    }
    let text = yaml::write(&Value::map([("schedule", jobs)]), None);
    Ok(Value::from_output(text))
}

/// Adds a job to the schedule. It is kept over restarts, and first runs when its first interval is over.
///
/// name
///     The name of the job.
///
/// function
///     The function that it runs.
///
/// job_args, job_kwargs
///     The arguments of the function: a list, and a mapping.
///
/// persist
///     `False` for a job that is gone after a restart, unless `schedule.save` is called.
///
/// test
///     `True` changes nothing, and tells what would be done.
///
/// Further arguments are keywords of the job, such as `seconds=3600` or `cron='0 3 * * *'`.
///
/// CLI Example:
///
///     saline '*' schedule.add disk function=disk.usage hours=1 splay=300
///     saline '*' schedule.add backup function=cmd.run job_args='["/usr/local/bin/backup"]' cron='0 3 * * *'
#[function(changes, in_minion)]
#[allow(clippy::too_many_arguments, reason = "the parameters are Salt's")]
fn add(
    job: &JobContext<'_>,
    name: String,
    function: Option<String>,
    job_args: Option<Value>,
    job_kwargs: Option<Value>,
    #[default(true)] persist: bool,
    #[default(false)] test: bool,
    #[kwargs] keywords: Mapping,
) -> Result<Value, Failure> {
    let scheduler = scheduler(job)?;
    let mut given = Vec::new();
    put(
        &mut given,
        "function",
        function.map_or(Value::Null, Value::from),
    );
    put(&mut given, "args", job_args.unwrap_or_default());
    put(&mut given, "kwargs", job_kwargs.unwrap_or_default());
    given.extend(keywords);
    let entry = Entry::read(&name, &Value::Map(given)).map_err(|error| refused(&error))?;
    let changed = match test {
        true => scheduler.check_add(&name),
        false => scheduler.add(&name, entry, persist),
    };
    let words = (
        format!("Job: {name} would be added to schedule."),
        format!("Added job: {name} to schedule."),
    );
    Ok(done(
        test,
        (&words.0, &words.1),
        changed,
        changes(&name, "added"),
    ))
}

/// Puts a keyword with a value into a mapping, if there is a value.
fn put(into: &mut Mapping, keyword: &str, value: Value) {
    if value != Value::Null {
        into.retain(|(known, _)| known != keyword);
        into.push((keyword.to_owned(), value));
    }
}

/// Changes a job that was added to the schedule: the keywords that are given, and no others. `None` removes one; a new time
/// takes the place of the old one.
///
/// The parameters are those of `schedule.add`.
///
/// CLI Example:
///
///     saline '*' schedule.modify disk hours=2
///     saline '*' schedule.modify disk cron='0 * * * *' splay=None
#[function(changes, in_minion)]
#[allow(clippy::too_many_arguments, reason = "the parameters are Salt's")]
fn modify(
    job: &JobContext<'_>,
    name: String,
    function: Option<String>,
    job_args: Option<Value>,
    job_kwargs: Option<Value>,
    #[default(true)] persist: bool,
    #[default(false)] test: bool,
    #[kwargs] keywords: Mapping,
) -> Result<Value, Failure> {
    let scheduler = scheduler(job)?;
    if let Err(error) = scheduler.check_changeable(&name) {
        return Ok(told(false, error.to_string(), Value::Map(Vec::new())));
    }
    let status = scheduler.status(&name);
    let old = status.map_or(Value::Null, |status| status.entry.to_value());
    let mut given = match &old {
        Value::Map(entries) => entries.clone(),
        _ => Vec::new(),
    };
    let is_time = |keyword: &str| TIMES.contains(&keyword);
    if keywords
        .iter()
        .any(|(keyword, value)| is_time(keyword) && *value != Value::Null)
    {
        given.retain(|(keyword, _)| !is_time(keyword));
    }
    put(
        &mut given,
        "function",
        function.map_or(Value::Null, Value::from),
    );
    put(&mut given, "args", job_args.unwrap_or_default());
    put(&mut given, "kwargs", job_kwargs.unwrap_or_default());
    for (keyword, value) in keywords {
        given.retain(|(known, _)| *known != keyword);
        put(&mut given, &keyword, value);
    }
    let new = Value::Map(given);
    let entry = Entry::read(&name, &new).map_err(|error| refused(&error))?;
    let changed = match test {
        true => Ok(()),
        false => scheduler.modify(&name, entry, persist),
    };
    let words = (
        format!("Job: {name} would be modified in schedule."),
        format!("Modified job: {name} in schedule."),
    );
    let changes = changes(&name, change(old, new));
    Ok(done(test, (&words.0, &words.1), changed, changes))
}

/// Deletes a job that was added to the schedule. One of the configuration files is removed there.
///
/// name
///     The name of the job.
///
/// persist
///     `False` for a change that is gone after a restart.
///
/// test
///     `True` changes nothing, and tells what would be done.
///
/// CLI Example:
///
///     saline '*' schedule.delete disk
#[function(changes, in_minion)]
fn delete(
    job: &JobContext<'_>,
    name: String,
    #[default(true)] persist: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let scheduler = scheduler(job)?;
    let changed = match test {
        true => scheduler.check_changeable(&name),
        false => scheduler.delete(&name, persist),
    };
    let words = (
        format!("Job: {name} would be deleted from schedule."),
        format!("Deleted job: {name} from schedule."),
    );
    Ok(done(
        test,
        (&words.0, &words.1),
        changed,
        changes(&name, "removed"),
    ))
}

/// Deletes every job that was added to the schedule. Those of the configuration files stay, and the comment names them.
///
/// The parameters are those of `schedule.delete`.
///
/// CLI Example:
///
///     saline '*' schedule.purge
#[function(changes, in_minion)]
fn purge(
    job: &JobContext<'_>,
    #[default(true)] persist: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let scheduler = scheduler(job)?;
    let (stay, go): (Vec<String>, Vec<String>) = scheduler
        .names()
        .into_iter()
        .partition(|name| scheduler.is_configured(name));
    let mut removed = Vec::new();
    for name in go {
        if !test && let Err(error) = scheduler.delete(&name, persist) {
            return Ok(told(false, error.to_string(), Value::Map(removed)));
        }
        removed.push((name, Value::from("removed")));
    }
    let verb = if test {
        "would be deleted"
    } else {
        "were deleted"
    };
    let mut comment = format!("{} jobs {verb} from schedule.", removed.len());
    if !stay.is_empty() {
        comment += &format!(" In the configuration files are: {}.", stay.join(", "));
    }
    Ok(told(true, comment, Value::Map(removed)))
}

/// Has the jobs of the schedule run by the clock.
///
/// The parameters are those of `schedule.delete`.
///
/// CLI Example:
///
///     saline '*' schedule.enable
#[function(changes, in_minion)]
fn enable(
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
fn disable(
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
    let word = if enabled { "enabled" } else { "disabled" };
    let changes = match scheduler.is_enabled() == enabled {
        true => Value::Map(Vec::new()),
        false => changes("schedule", word),
    };
    let changed = match test {
        true => Ok(()),
        false => scheduler.enable(enabled, persist),
    };
    let did = format!(
        "{} schedule on minion.",
        if enabled { "Enabled" } else { "Disabled" }
    );
    let would = format!("Schedule would be {word}.");
    Ok(done(test, (&would, &did), changed, changes))
}

/// Has a job of the schedule run by the clock again.
///
/// The parameters are those of `schedule.delete`.
///
/// CLI Example:
///
///     saline '*' schedule.enable_job disk
#[function(changes, in_minion)]
fn enable_job(
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
fn disable_job(
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
    let word = if enabled { "enabled" } else { "disabled" };
    let status = scheduler.status(name);
    let changed = match (test, &status) {
        (true, None) => Err(ChangeError::NoSuchJob(name.to_owned())),
        (true, Some(_)) => Ok(()),
        (false, _) => scheduler.enable_job(name, enabled, persist),
    };
    let changes = match status.is_some_and(|status| status.enabled == enabled) {
        true => Value::Map(Vec::new()),
        false => changes(name, word),
    };
    let did = format!(
        "{} Job {name} in schedule.",
        if enabled { "Enabled" } else { "Disabled" }
    );
    let would = format!("Job: {name} would be {word} in schedule.");
    Ok(done(test, (&would, &did), changed, changes))
}

/// Has a job of the schedule run now, also one that is disabled. Its times stay as they are.
///
/// CLI Example:
///
///     saline '*' schedule.run_job disk
#[function(nonblocking, in_minion)]
#[expect(unused_variables, reason = "a job that is disabled runs in any case")]
fn run_job(
    job: &JobContext<'_>,
    name: String,
    #[default(false)] force: bool,
) -> Result<Value, Failure> {
    let did = format!("Scheduling Job {name} on minion.");
    let ordered = scheduler(job)?.run_job(&name);
    Ok(done(false, ("", &did), ordered, Value::Map(Vec::new())))
}

/// Saves the schedule, with what was added with `persist=False`.
///
/// CLI Example:
///
///     saline '*' schedule.save
#[function(changes, in_minion)]
fn save(job: &JobContext<'_>, #[default(false)] test: bool) -> Result<Value, Failure> {
    let scheduler = scheduler(job)?;
    let saved = match test {
        true => Ok(()),
        false => scheduler.save(),
    };
    let words = (
        "Schedule would be saved.",
        "Schedule (non-pillar items) saved.",
    );
    Ok(done(test, words, saved, Value::Map(Vec::new())))
}

/// Forgets what is not saved, and reads the saved schedule again. The configuration files are read again on SIGHUP.
///
/// CLI Example:
///
///     saline '*' schedule.reload
#[function(in_minion)]
fn reload(job: &JobContext<'_>) -> Result<Value, Failure> {
    scheduler(job)?.reload();
    Ok(told(
        true,
        "Reloaded schedule on minion.".to_owned(),
        Value::Map(Vec::new()),
    ))
}

/// Returns whether jobs run by the clock, or whether the named one does.
///
/// CLI Example:
///
///     saline '*' schedule.is_enabled
///     saline '*' schedule.is_enabled name=disk
#[function(nonblocking, in_minion)]
fn is_enabled(job: &JobContext<'_>, name: Option<String>) -> Result<bool, Failure> {
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
fn show_next_fire_time(job: &JobContext<'_>, name: String) -> Result<Value, Failure> {
    let Some(status) = scheduler(job)?.status(&name) else {
        let error = ChangeError::NoSuchJob(name);
        return Ok(told(false, error.to_string(), Value::Map(Vec::new())));
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
fn job_status(job: &JobContext<'_>, name: String) -> Result<Value, Failure> {
    let Some(status) = scheduler(job)?.status(&name) else {
        return Ok(Value::Map(Vec::new()));
    };
    let Value::Map(mut shown) = shown(&name, &status) else {
        return Ok(Value::Map(Vec::new()));
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
