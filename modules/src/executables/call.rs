//! The call of a function of an executable: what the executable reads, and what its output means.

use std::path::PathBuf;

use saline_data::{Value, json};
use saline_functions::{BoundArguments, Failure};

use crate::command::Command;
use crate::{JobContext, Outcome};

/// The largest part of a text of an executable that is shown or logged, in bytes.
const SHOWN: usize = 2048;

/// Runs the function of an executable that the job asks for.
///
/// # Errors
/// When the executable cannot be run, takes too long, or succeeds without printing JSON.
pub(super) fn run(job: &JobContext<'_>, arguments: BoundArguments) -> Result<Outcome, Failure> {
    let fun = job.function;
    let (module, name) = fun.split_once('.').unwrap_or((fun, ""));
    let gone = || Failure::Execution(format!("the executable of {fun} is gone"));
    let executables = &job.modules.executables;
    let path = executables.path(module).ok_or_else(gone)?;
    let executable = executables.describe(&path, job)?;
    let described = executable.functions.iter();
    let described = described.into_iter().find(|one| one.function.name == name);
    let described = described.ok_or_else(gone)?;
    let (args, kwargs) = arguments.into_all();
    let call = Value::map([
        ("function", Value::from(name)),
        ("args", Value::List(args)),
        ("kwargs", Value::Map(kwargs)),
        ("jid", Value::from(job.job.description().jid.as_str())),
    ]);
    let command = Command {
        argv: vec![executable.file.path.display().to_string()],
        folder: Some(PathBuf::from("/")),
        user: described.user.clone(),
        input: json::line(&call),
        timeout: Some(described.time),
        ..Command::default()
    };
    let done = job.run(&command)?;
    let errors = done.stderr.into_bytes().unwrap_or_else(String::into_bytes);
    if done.timed_out {
        return Err(Failure::Execution(format!(
            "{fun} took longer than {} s, and was ended{}",
            described.time.as_secs(),
            said(&errors)
        )));
    }
    if !errors.is_empty() {
        tracing::info!("{fun} wrote to its standard error: {}", excerpt(&errors));
    }
    let printed = done.stdout.into_bytes().map_err(Failure::Execution)?;
    let value = match printed.trim_ascii() {
        [] => Ok(Value::Null),
        printed => json::read(printed),
    };
    match (value, done.retcode) {
        (Ok(Value::Null), retcode @ 1..) if !errors.is_empty() => Ok(Outcome::new(
            format!("ERROR: {fun} ended with retcode {retcode}{}", said(&errors)),
            retcode,
        )),
        (Ok(value), retcode) => Ok(Outcome::new(value, retcode)),
        (Err(error), 0) => Err(Failure::Execution(format!(
            "{fun} did not print JSON ({error}): {}",
            excerpt(&printed)
        ))),
        (Err(_), retcode) => Ok(Outcome::new(
            format!(
                "ERROR: {fun} ended with retcode {retcode}{}",
                said(match errors.is_empty() {
                    true => &printed,
                    false => &errors,
                })
            ),
            retcode,
        )),
    }
}

fn said(errors: &[u8]) -> String {
    match errors.trim_ascii() {
        [] => String::new(),
        errors => format!(": {}", excerpt(errors)),
    }
}

/// Returns the end of a text that may be long.
pub(crate) fn excerpt(text: &[u8]) -> String {
    let text = text.trim_ascii();
    let shown = &text[text.len().saturating_sub(SHOWN)..];
    let dots = if shown.len() < text.len() { "…" } else { "" };
    format!("{dots}{}", String::from_utf8_lossy(shown))
}
