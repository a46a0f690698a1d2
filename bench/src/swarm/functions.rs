//! The functions of a swarm's minions: they return at once, so they need no threads.

use saline_data::Value;
use saline_minion::modules::{Call, Failure, Function, Module, Outcome, required};

/// The module `test`, as far as it returns at once.
#[derive(Debug)]
pub(super) struct CheapTest;

impl Module for CheapTest {
    fn name(&self) -> &'static str {
        "test"
    }

    fn functions(&self) -> &'static [Function] {
        FUNCTIONS
    }
}

const FUNCTIONS: &[Function] = &[
    Function::new("ping", "Return `True`.", ping),
    Function::new("echo", "Return a text.", echo).with(&[required("text")]),
    Function::new("text", "Return a text of so many letters.", text).with(&[required("length")]),
    Function::new("events", "Fire so many events.", events).with(&[required("count")]),
];

fn ping(_: &Call<'_>) -> Result<Outcome, Failure> {
    Ok(true.into())
}

fn text(call: &Call<'_>) -> Result<Outcome, Failure> {
    let length = call
        .integer("length")?
        .and_then(|length| usize::try_from(length).ok());
    Ok("x".repeat(length.unwrap_or(0)).into())
}

/// Fires events with the end of tag `bench`, each with its number.
fn events(call: &Call<'_>) -> Result<Outcome, Failure> {
    for number in 0..call.integer("count")?.unwrap_or(0) {
        let data = vec![("number".to_owned(), Value::Int(number))];
        let fired = call.host.events.fire("bench", data);
        fired.map_err(|error| Failure::Execution(error.to_string()))?;
    }
    Ok(true.into())
}

fn echo(call: &Call<'_>) -> Result<Outcome, Failure> {
    Ok(call.value("text").cloned().unwrap_or_default().into())
}
