//! `event`: fires events on the master's bus.

use saline_functions::{Failure, Mapping, function};

use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[&SEND, &FIRE_MASTER];

/// Fires an event on the master's bus. Its tag is `salt/minion/<id>/` followed by `tag`: no minion can fire events of
/// the master or of another minion.
///
/// tag
///     The end of the tag.
///
/// data
///     A mapping. Further `name=value` arguments are added to it.
///
/// Returns `True` once the event is queued. It is lost if the minion stops before the master has taken it.
///
/// CLI Example:
///
///     saline '*' event.send backup/done files=1204
#[function(in_minion)]
fn send(
    job: &JobContext<'_>,
    tag: String,
    data: Option<Mapping>,
    #[kwargs] more: Mapping,
) -> Result<bool, Failure> {
    fire(job, &tag, [data.unwrap_or_default(), more].concat())
}

/// Fires an event as `event.send` does, with the arguments in the order of Salt's older function.
///
/// CLI Example:
///
///     saline '*' event.fire_master '{files: 1204}' backup/done
#[function(in_minion)]
fn fire_master(job: &JobContext<'_>, data: Mapping, tag: String) -> Result<bool, Failure> {
    fire(job, &tag, data)
}

fn fire(job: &JobContext<'_>, tag: &str, data: Mapping) -> Result<bool, Failure> {
    let fired = job.host.events.fire(tag, data);
    fired.map_err(|error| Failure::Execution(error.to_string()))?;
    Ok(true)
}
