//! `schedule`: the jobs that the minion runs by the clock.
//!
//! | file | has |
//! |---|---|
//! | `listed` | the functions that show jobs |
//! | `changed` | the functions that add, change and delete jobs |
//! | `switched` | the functions that have jobs run by the clock or not, and that save the schedule |
//! | `single_runs` | the functions about one run of a job |
//! | `elsewhere` | the functions that Salt has for the schedules of other minions |

mod changed;
mod elsewhere;
mod listed;
mod single_runs;
mod switched;

use std::sync::Arc;

use saline_data::Value;
use saline_functions::Failure;
use saline_schedule::{ChangeError, Scheduler};

use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[
    &listed::LIST,
    &changed::ADD,
    &changed::MODIFY,
    &changed::DELETE,
    &changed::PURGE,
    &switched::ENABLE,
    &switched::DISABLE,
    &switched::ENABLE_JOB,
    &switched::DISABLE_JOB,
    &single_runs::RUN_JOB,
    &single_runs::SKIP_JOB,
    &single_runs::POSTPONE_JOB,
    &elsewhere::COPY,
    &elsewhere::MOVE,
    &switched::SAVE,
    &switched::RELOAD,
    &listed::IS_ENABLED,
    &listed::SHOW_NEXT_FIRE_TIME,
    &listed::JOB_STATUS,
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

/// Returns what is told of a change that was not made.
fn not_done(error: &ChangeError) -> Value {
    told(false, error.to_string(), nothing())
}

/// Returns what is told of a change that `change` makes, or with `test` only would, if `check` finds nothing against it.
fn made(
    test: bool,
    (would, did): (String, String),
    changes: Value,
    check: impl FnOnce() -> Result<(), ChangeError>,
    change: impl FnOnce() -> Result<(), ChangeError>,
) -> Value {
    let (comment, done) = match test {
        true => (would, check()),
        false => (did, change()),
    };
    match done {
        Ok(()) => told(true, comment, changes),
        Err(error) => not_done(&error),
    }
}

/// The changes of a function that changes no job.
fn nothing() -> Value {
    Value::Map(Vec::new())
}

fn changes(name: &str, what: impl Into<Value>) -> Value {
    Value::map([(name, what.into())])
}
