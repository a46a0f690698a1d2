//! The functions of a minion. A module is one file that implements [`Module`]; `sys.doc` prints the
//! documentation of its functions.

mod call;
mod cmd;
mod event;
mod function;
mod grains;
mod outcome;
mod saltutil;
mod sys;
mod test;

use std::collections::BTreeMap;
use std::fmt;

pub use call::{Call, scalar_text};
pub use function::{Function, Parameter, optional, required};
pub use outcome::{Failure, INTERRUPTED, Outcome};

use crate::executor::JobControl;
use crate::host::Host;
use saline_messages::Arguments;

/// A set of functions under one name.
pub trait Module: Send + Sync + fmt::Debug {
    /// Returns the module's name, the part of a function's name before the dot.
    fn name(&self) -> &'static str;

    /// Returns the module's functions.
    fn functions(&self) -> &'static [Function];
}

/// The modules of a minion.
#[derive(Debug)]
pub struct Modules {
    functions: BTreeMap<String, &'static Function>,
    return_at_once: bool,
}

impl Modules {
    /// Creates an empty set.
    pub fn none() -> Self {
        Self {
            functions: BTreeMap::new(),
            return_at_once: false,
        }
    }

    /// Creates the set of modules that every minion has.
    pub fn built_in() -> Self {
        Self::none()
            .with(&test::Test)
            .with(&cmd::Cmd)
            .with(&event::Event)
            .with(&grains::Grains)
            .with(&sys::Sys)
            .with(&saltutil::SaltUtil)
    }

    /// Adds a module; its functions replace those of the same name.
    #[must_use]
    pub fn with(mut self, module: &dyn Module) -> Self {
        for function in module.functions() {
            self.functions
                .insert(format!("{}.{}", module.name(), function.name), function);
        }
        self
    }

    /// Declares that every function returns at once, so that a job needs no thread: it is run where the
    /// minion serves its master. For programs that run many minions; a function that waits would stop
    /// all of them.
    #[must_use]
    pub fn returning_at_once(mut self) -> Self {
        self.return_at_once = true;
        self
    }

    /// Whether every function returns at once.
    pub fn return_at_once(&self) -> bool {
        self.return_at_once
    }

    /// Returns every function with its full name, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'static Function)> {
        self.functions.iter().map(|(name, f)| (name.as_str(), *f))
    }

    /// Whether `fun` does not wait until other jobs leave it a thread.
    pub fn is_about_jobs(&self, fun: &str) -> bool {
        self.functions
            .get(fun)
            .is_some_and(|function| function.about_jobs)
    }

    /// Runs `fun` for `job` to its end on this thread. Never panics: the panic of a function becomes
    /// its return.
    pub fn call(&self, fun: &str, arguments: Arguments, host: &Host, job: &JobControl) -> Outcome {
        let Some(function) = self.functions.get(fun) else {
            return Outcome::not_available(fun);
        };
        let run = || {
            let call = Call::bind(function, arguments, host, job, self)?;
            (function.run)(&call)
        };
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(Ok(outcome)) => judged(outcome),
            Ok(Err(failure)) => failure.outcome(fun, &function.indented_doc()),
            Err(panic) => {
                let text = panic_text(panic.as_ref());
                tracing::error!("{fun} panicked: {text}");
                Failure::Exception(text).outcome(fun, "")
            }
        }
    }
}

/// As in Salt, a mapping that says `result: False` or `success: False` is a failure.
fn judged(mut outcome: Outcome) -> Outcome {
    use saline_data::Value;
    let says_no = |key| outcome.value.get(key).and_then(Value::as_bool) == Some(false);
    if outcome.retcode == 0 && (says_no("result") || says_no("success")) {
        outcome.retcode = 1;
    }
    outcome
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it panicked".to_owned())
}

#[cfg(test)]
mod tests;
