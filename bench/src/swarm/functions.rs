//! The functions of a swarm's minions: they return at once, so they need no threads.

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
];

fn ping(_: &Call<'_>) -> Result<Outcome, Failure> {
    Ok(true.into())
}

fn echo(call: &Call<'_>) -> Result<Outcome, Failure> {
    Ok(call.value("text").cloned().unwrap_or_default().into())
}
