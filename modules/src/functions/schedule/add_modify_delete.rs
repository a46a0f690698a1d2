//! The functions that add, change and delete jobs of the schedule.

use saline_data::Value;
use saline_data::nearest;
use saline_data::printable::number_of;
use saline_functions::{Failure, Mapping, function};
use saline_schedule::{Entry, EntryError, KEYWORDS, Scheduler};

use super::{changes, made, not_done, scheduler, told};
use crate::JobContext;
use crate::change::change;

/// The keywords that say when a job is due: a job has those of one kind.
const TIMES: [&str; 7] = [
    "seconds", "minutes", "hours", "days", "cron", "when", "once",
];

fn refused(error: &EntryError) -> Failure {
    let near = nearest(error.keyword.as_deref().unwrap_or_default(), KEYWORDS);
    let hint = match near.filter(|_| error.is_unknown) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => String::new(),
    };
    Failure::Invocation(format!("{error}{hint}"))
}

/// Adds a job to the schedule. It is kept over restarts, and first runs when its first interval is over.
///
/// name
///     The name of the job.
///
/// function
///     The function that it runs. One that a module of the minion lacks is refused; another one may come with a module of your own.
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
pub(super) fn add(
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
    put_call(&mut given, function, job_args, job_kwargs);
    given.extend(keywords);
    let entry = Entry::read(&name, &Value::Map(given)).map_err(|error| refused(&error))?;
    let note = note_about_function(job, &entry.function)? + note_about_times(scheduler, &entry);
    let words = (
        format!("Job: {name} would be added to schedule.{note}"),
        format!("Added job: {name} to schedule.{note}"),
    );
    let check = || scheduler.check_add(&name);
    let add = || scheduler.add(&name, entry, persist);
    Ok(made(test, words, changes(&name, "added"), check, add))
}

/// Returns what the comment about a job adds when its function cannot run yet.
fn note_about_function(job: &JobContext<'_>, function: &str) -> Result<String, Failure> {
    let why = job.modules.check_scheduled(job, function)?;
    Ok(why.map_or_else(String::new, |why| format!(" It cannot run yet: {why}")))
}

/// Returns what the comment about a job adds when all its times are over.
fn note_about_times(scheduler: &Scheduler, entry: &Entry) -> &'static str {
    match scheduler.is_over(entry) {
        true => " It will not run: its times are over.",
        false => "",
    }
}

/// Puts what is given of the function that a job runs into the mapping of the job.
fn put_call(
    job: &mut Mapping,
    function: Option<String>,
    args: Option<Value>,
    kwargs: Option<Value>,
) {
    let function = function.map(Value::from);
    put(job, "function", function.unwrap_or_default());
    put(job, "args", args.unwrap_or_default());
    put(job, "kwargs", kwargs.unwrap_or_default());
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
pub(super) fn modify(
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
        return Ok(not_done(&error));
    }
    let status = scheduler.status(&name);
    let old = status.map_or(Value::Null, |status| status.entry.to_value());
    let mut given = match &old {
        Value::Map(entries) => entries.clone(),
        _ => Vec::new(),
    };
    let changes_function = function.is_some();
    let is_time = |keyword: &str| TIMES.contains(&keyword);
    if keywords
        .iter()
        .any(|(keyword, value)| is_time(keyword) && *value != Value::Null)
    {
        given.retain(|(keyword, _)| !is_time(keyword));
    }
    put_call(&mut given, function, job_args, job_kwargs);
    for (keyword, value) in keywords {
        given.retain(|(known, _)| *known != keyword);
        put(&mut given, &keyword, value);
    }
    let new = Value::Map(given);
    let entry = Entry::read(&name, &new).map_err(|error| refused(&error))?;
    let note = match changes_function {
        true => note_about_function(job, &entry.function)?,
        false => String::new(),
    };
    let note = note + note_about_times(scheduler, &entry);
    let words = (
        format!("Job: {name} would be modified in schedule.{note}"),
        format!("Modified job: {name} in schedule.{note}"),
    );
    let changes = changes(&name, change(old, new));
    let modify = || scheduler.modify(&name, entry, persist);
    Ok(made(test, words, changes, || Ok(()), modify))
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
pub(super) fn delete(
    job: &JobContext<'_>,
    name: String,
    #[default(true)] persist: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let scheduler = scheduler(job)?;
    let words = (
        format!("Job: {name} would be deleted from schedule."),
        format!("Deleted job: {name} from schedule."),
    );
    let check = || scheduler.check_changeable(&name);
    let delete = || scheduler.delete(&name, persist);
    Ok(made(test, words, changes(&name, "removed"), check, delete))
}

/// Deletes every job that was added to the schedule. Those of the configuration files and of the pillar stay, and the comment names them.
///
/// The parameters are those of `schedule.delete`.
///
/// CLI Example:
///
///     saline '*' schedule.purge
#[function(changes, in_minion)]
pub(super) fn purge(
    job: &JobContext<'_>,
    #[default(true)] persist: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let scheduler = scheduler(job)?;
    let (stay, go): (Vec<String>, Vec<String>) = scheduler
        .names()
        .into_iter()
        .partition(|name| scheduler.is_configured(name) || scheduler.is_of_pillar(name));
    let mut removed = Vec::new();
    for name in go {
        if !test && let Err(error) = scheduler.delete(&name, persist) {
            return Ok(told(false, error.to_string(), Value::Map(removed)));
        }
        removed.push((name, Value::from("removed")));
    }
    let jobs = number_of(removed.len(), "job");
    let mut comment = match (test, removed.len()) {
        (true, _) => format!("{jobs} would be deleted from schedule."),
        (false, 1) => format!("{jobs} was deleted from schedule."),
        (false, _) => format!("{jobs} were deleted from schedule."),
    };
    if !stay.is_empty() {
        comment += &format!(
            " Those of the configuration files and of the pillar stay: {}.",
            stay.join(", ")
        );
    }
    Ok(told(true, comment, Value::Map(removed)))
}
