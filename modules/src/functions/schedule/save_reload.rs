//! The functions that save the schedule and read it again.

use saline_data::Value;
use saline_functions::{Failure, function};

use super::{made, nothing, scheduler, told};
use crate::JobContext;

/// Saves the schedule, with what was added with `persist=False`.
///
/// CLI Example:
///
///     saline '*' schedule.save
#[function(changes, in_minion)]
pub(super) fn save(job: &JobContext<'_>, #[default(false)] test: bool) -> Result<Value, Failure> {
    let scheduler = scheduler(job)?;
    let words = (
        "Schedule would be saved.".to_owned(),
        "Schedule (non-pillar items) saved.".to_owned(),
    );
    Ok(made(test, words, nothing(), || Ok(()), || scheduler.save()))
}

/// Forgets what is not saved, and reads the saved schedule again. The configuration files are read again on SIGHUP.
///
/// CLI Example:
///
///     saline '*' schedule.reload
#[function(in_minion)]
pub(super) fn reload(job: &JobContext<'_>) -> Result<Value, Failure> {
    scheduler(job)?.reload();
    let comment = "Reloaded schedule on minion.".to_owned();
    Ok(told(true, comment, nothing()))
}
