//! A function of a runner: its name, its parameters, its documentation and its code.

use std::pin::Pin;
use std::time::Duration;

use saline_data::{Packed, Value};

use super::arguments::BoundArguments;
use super::error::RunnerError;
use super::run::Run;

/// How long most functions may take.
const USUAL_TIME: Duration = Duration::from_secs(60);

/// The return of a function.
#[derive(Debug)]
pub(super) struct Returned {
    pub(super) payload: Packed,
    /// Whether it found what it should.
    pub(super) success: bool,
}

impl From<Packed> for Returned {
    fn from(payload: Packed) -> Self {
        Self {
            payload,
            success: true,
        }
    }
}

impl From<Value> for Returned {
    fn from(value: Value) -> Self {
        Packed::pack(&value).into()
    }
}

/// A function at work.
pub(super) type Working<'a> =
    Pin<Box<dyn Future<Output = Result<Returned, RunnerError>> + Send + 'a>>;

/// The code of a function. Its future may be dropped at any await: the run was ended, or took too long.
pub(super) type Code = for<'a> fn(&'a Run, &'a BoundArguments) -> Working<'a>;

/// A function that runs on the master.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    /// The name within the module.
    pub(super) name: &'static str,
    /// The documentation: prose, then `CLI Example:`.
    pub(super) doc: &'static str,
    /// The parameters, in the order in which positional arguments fill them.
    pub(super) parameters: &'static [&'static str],
    /// How many of them, the first ones, are required.
    pub(super) required: usize,
    /// Whether the function takes further positional arguments.
    pub(super) more_positional: bool,
    /// Whether the function looks at other runs or ends them: it has a place when they hold all of theirs.
    pub(super) about_runs: bool,
    /// Whether a second run of the same request would do harm: the function is not run anew after a restart of
    /// the master.
    pub(super) acts_once: bool,
    /// How long the function may take, if the operator does not say.
    pub(super) time: Duration,
    /// The code.
    pub(super) run: Code,
}

impl Function {
    /// Declares a function without parameters.
    pub(super) const fn new(name: &'static str, doc: &'static str, run: Code) -> Self {
        Self {
            name,
            doc,
            parameters: &[],
            required: 0,
            more_positional: false,
            about_runs: false,
            acts_once: false,
            time: USUAL_TIME,
            run,
        }
    }

    /// Adds parameters, of which the first `required` ones must be given.
    pub(super) const fn with(
        mut self,
        required: usize,
        parameters: &'static [&'static str],
    ) -> Self {
        self.required = required;
        self.parameters = parameters;
        self
    }

    /// Allows any number of further positional arguments.
    pub(super) const fn with_more_positional(mut self) -> Self {
        self.more_positional = true;
        self
    }

    /// Declares that the function looks at other runs or ends them.
    pub(super) const fn about_runs(mut self) -> Self {
        self.about_runs = true;
        self
    }

    /// Declares that a second run of the same request would do harm.
    pub(super) const fn acts_once(mut self) -> Self {
        self.acts_once = true;
        self
    }

    /// Gives the function more time than usual.
    pub(super) const fn with_time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }
}
