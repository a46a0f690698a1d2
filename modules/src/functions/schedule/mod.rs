//! `schedule`: the jobs that the minion runs by the clock.
//!
//! | file | has |
//! |---|---|
//! | `queries` | the functions that show jobs |
//! | `add_modify_delete` | the functions that add, change and delete jobs |
//! | `enable_disable` | the functions that have jobs run by the clock or not |
//! | `single_runs` | the functions about one run of a job |
//! | `save_reload` | the functions that save the schedule and read it again |
//! | `copy_move` | the functions that Salt has for the schedules of other minions |

mod add_modify_delete;
mod copy_move;
mod enable_disable;
mod queries;
mod save_reload;
mod single_runs;

use std::sync::Arc;

use saline_data::Value;
use saline_functions::Failure;
use saline_schedule::{ChangeError, Scheduler};

use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[
    &queries::LIST,
    &add_modify_delete::ADD,
    &add_modify_delete::MODIFY,
    &add_modify_delete::DELETE,
    &add_modify_delete::PURGE,
    &enable_disable::ENABLE,
    &enable_disable::DISABLE,
    &enable_disable::ENABLE_JOB,
    &enable_disable::DISABLE_JOB,
    &single_runs::RUN_JOB,
    &single_runs::SKIP_JOB,
    &single_runs::POSTPONE_JOB,
    &copy_move::COPY,
    &copy_move::MOVE,
    &save_reload::SAVE,
    &save_reload::RELOAD,
    &queries::IS_ENABLED,
    &queries::SHOW_NEXT_FIRE_TIME,
    &queries::JOB_STATUS,
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
