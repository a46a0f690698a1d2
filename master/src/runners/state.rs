//! `state`: watches the master's event bus, and says which orchestrations there are.

use saline_data::Value;
use saline_functions::{Failure, function};

use super::Functions;
use super::run::Run;

pub(super) const FUNCTIONS: Functions = &[&EVENT, &ORCHESTRATE_SHOW_SLS];

/// Prints the events of the master's bus whose tags match the glob `tagmatch`, until Ctrl-C or after `count` events.
/// `pretty=True` prints each in several lines, `origin=True` who caused it, between tag and data. `saline-run` does this
/// itself: no run is begun on the master.
///
/// CLI Example:
///
///     saline-run state.event
///     saline-run state.event 'salt/job/*/ret/*' count=10 pretty=True
#[function(nonblocking)]
#[expect(unused_variables, reason = "saline-run reads them")]
async fn event(
    _: &Run,
    #[default("*")] tagmatch: String,
    #[default(-1)] count: i64,
    #[default(false)] pretty: bool,
    #[default(false)] origin: bool,
) -> Result<bool, Failure> {
    Err(Failure::Invocation(
        "a run has one return: follow the master's event bus instead, as saline-run state.event does".to_owned(),
    ))
}

/// Returns an empty mapping, as Salt does where there are no orchestrations: this master has none. Programs for Salt's API ask for them.
///
/// mods
///     The orchestrations that are asked for: `*` for all. A name is an error.
///
/// CLI Example:
///
///     saline-run state.orchestrate_show_sls '*'
#[function(nonblocking)]
async fn orchestrate_show_sls(_: &Run, #[default("*")] mods: String) -> Result<Value, Failure> {
    match &*mods {
        "*" | "" => Ok(Value::Map(Vec::new())),
        name => Err(Failure::Execution(format!(
            "state.orchestrate_show_sls: there is no orchestration {name:?}: this master has none"
        ))),
    }
}
