//! The functions of a swarm's minions: they return at once, so they need no threads.

use saline_data::Value;
use saline_functions::{Failure, function};
use saline_minion::modules::{Functions, JobContext};

/// The module `test`, as far as it returns at once.
pub(super) const TEST: Functions = &[&PING, &ECHO, &TEXT, &EVENTS];

/// Returns `True`.
#[function(nonblocking)]
fn ping(_: &JobContext<'_>) -> bool {
    true
}

/// Returns its argument.
#[function(nonblocking)]
fn echo(_: &JobContext<'_>, text: Value) -> Value {
    text
}

/// Returns a text of so many letters.
#[function(nonblocking)]
fn text(_: &JobContext<'_>, length: u64) -> String {
    "x".repeat(usize::try_from(length).unwrap_or(0))
}

/// Fires events with the end of tag `bench`, each with its number.
#[function(nonblocking)]
fn events(job: &JobContext<'_>, count: i64) -> Result<bool, Failure> {
    for number in 0..count {
        let data = vec![("number".to_owned(), Value::Int(number))];
        let fired = job.host.events.fire("bench", data);
        fired.map_err(|error| Failure::Execution(error.to_string()))?;
    }
    Ok(true)
}
