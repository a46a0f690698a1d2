//! `event`: fires events on the bus of the minion, and on that of the master.

use saline_functions::{Failure, Mapping, function};

use crate::event_queue::EventError;
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[&FIRE, &SEND, &FIRE_MASTER];

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
    to_master(job, &tag, [data.unwrap_or_default(), more].concat())
}

/// Fires an event as `event.send` does, with the arguments in the order of Salt's older function.
///
/// CLI Example:
///
///     saline '*' event.fire_master '{files: 1204}' backup/done
#[function(in_minion)]
fn fire_master(job: &JobContext<'_>, data: Mapping, tag: String) -> Result<bool, Failure> {
    to_master(job, &tag, data)
}

/// Fires an event on the minion's own bus, for programs on its machine. On `module_refresh`, `grains_refresh`,
/// `pillar_refresh` and `fire_master` the minion acts itself.
///
/// data
///     A mapping.
///
/// tag
///     The tag, as it is on the bus.
///
/// timeout
///     Accepted for compatibility; does nothing.
///
/// CLI Example:
///
///     saline '*' event.fire '{files: 1204}' backup/done
#[function(nonblocking, in_minion)]
#[expect(unused_variables, reason = "nothing is waited for")]
fn fire(
    job: &JobContext<'_>,
    data: Mapping,
    tag: String,
    timeout: Option<i64>,
) -> Result<bool, Failure> {
    if !job.host.has_bus {
        return Err(Failure::Execution(EventError::NoBus.to_string()));
    }
    let fired = job.host.local_events.fire(&tag, data);
    fired.map_err(|error| Failure::Execution(error.to_string()))?;
    Ok(true)
}

fn to_master(job: &JobContext<'_>, tag: &str, data: Mapping) -> Result<bool, Failure> {
    let fired = job.host.events.fire(tag, data);
    fired.map_err(|error| Failure::Execution(error.to_string()))?;
    Ok(true)
}
