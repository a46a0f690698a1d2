//! `doc`: the documentation of runners, and of the functions of minions.

use saline_functions::{Failure, Selector, function};
use std::collections::BTreeMap;

use saline_data::Value;
use saline_targeting::Target;

use super::Functions;
use super::ask_minions::ask_minions;
use super::run::Run;

pub(super) const FUNCTIONS: Functions = &[&EXECUTION, &RUNNER];

/// Returns the documentation of runners. Names of functions or modules, or globs, choose among them.
///
/// CLI Example:
///
///     saline-run doc.runner
///     saline-run doc.runner jobs 'manage.*'
///     saline-run -d jobs.list_jobs
#[function]
async fn runner(run: &Run, #[args] wanted: Vec<Selector>) -> Value {
    run.registry.documentation(&wanted)
}

/// Returns the documentation of the functions of minions, each once. All minions are asked (`sys.doc`); the run waits for
/// those that are present, for at most the master's `timeout`. Names of functions or modules, or globs, choose among the
/// functions.
///
/// CLI Example:
///
///     saline-run doc.execution
///     saline-run doc.execution test.ping
#[function]
async fn execution(run: &Run, #[args] wanted: Vec<String>) -> Result<Value, Failure> {
    let wanted = wanted.into_iter().map(Value::from).collect();
    let asked = ask_minions(
        run,
        Target::glob("*"),
        "sys.doc",
        wanted,
        "what only they have is left out",
    )
    .await?;
    let Some(returns) = asked else {
        run.note("no minion is accepted: nobody was asked");
        return Ok(Value::Map(Vec::new()));
    };
    let mut docs: BTreeMap<String, Value> = BTreeMap::new();
    for stored in returns {
        if let Value::Map(entries) = stored.payload.unpack_or_show() {
            docs.extend(entries);
        }
    }
    Ok(Value::Map(docs.into_iter().collect()))
}
