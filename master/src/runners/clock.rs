//! `clock`: the master's time.

use saline_data::Value;
use saline_functions::{Failure, function};

use super::run::Run;
use super::{Functions, Returned};

pub(super) const FUNCTIONS: Functions = &[&SET_BACK];

/// Has the next start of the master set its time back to the clock of this machine, and returns by how many seconds it is
/// ahead now. The master's time never goes back by itself: after one start with a clock that was far ahead it stays ahead,
/// and `date` gives no jid. Set the clock right first, and restart the master afterwards: it sets the files aside that hold jobs
/// and returns from the time ahead (`….sqlite.ahead` in the folder of the job store). Refused while a job is open, now and
/// at that start. With `test=True` orders nothing.
///
/// CLI Example:
///
///     saline-run clock.set_back
///     saline-run clock.set_back test=True
#[function(changes)]
async fn set_back(run: &Run, #[default(false)] test: bool) -> Result<Returned, Failure> {
    let jobs = &run.parts.jobs;
    let ahead = match test {
        true => jobs.may_set_back(),
        false => jobs.order_set_back().await,
    };
    let ahead = ahead.map_err(|refused| Failure::Execution(refused.to_string()))?;
    let seconds = ahead.as_secs();
    if test {
        return Ok(Value::from(seconds).into());
    }
    tracing::warn!("the next start of the master sets its time back by {seconds} s");
    run.note(format!(
        "the master's time is {seconds} s ahead; restart the master to set it back"
    ));
    Ok(Value::from(seconds).into())
}
