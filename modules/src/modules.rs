//! The registry of the functions of a minion, and the call of one.

use saline_data::Value;
use saline_functions::{Failure, Function, Parameter, Registry, hide_panic, take_secrets};
use saline_messages::{ArgumentPlace, Arguments};

use crate::functions::BUILT_IN;
use crate::hidden_values::HiddenValues;
use crate::job::JobControl;
use crate::{Host, JobContext, Outcome};

/// The functions of one module.
pub type Functions = &'static [&'static Function<JobContext<'static>>];

/// The modules of a minion.
#[derive(Debug, Default)]
pub struct Modules(pub(crate) Registry<JobContext<'static>>);

impl Modules {
    /// Creates the set of modules that every minion has.
    pub fn built_in() -> Self {
        let none = Self::default();
        BUILT_IN.iter().fold(none, |modules, (name, functions)| {
            modules.with(name, functions)
        })
    }

    /// Adds a module; its functions replace those of the same name.
    #[must_use]
    pub fn with(self, module: &str, functions: &[&Function<JobContext<'static>>]) -> Self {
        Self(self.0.with(module, functions.iter().copied()))
    }

    /// Returns the full names of the functions, in alphabetical order.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.to_owned()).collect()
    }

    /// Whether no function blocks, so that a job needs no thread: it is run where the minion serves its master.
    pub fn return_at_once(&self) -> bool {
        self.0.iter().all(|(_, function)| !function.blocks)
    }

    /// Whether `fun` waits until other jobs leave it a thread.
    pub fn blocks(&self, fun: &str) -> bool {
        self.0.get(fun).is_none_or(|function| function.blocks)
    }

    /// Takes the arguments of secret parameters out of a call; of an unknown function it has none.
    pub fn take_secrets(
        &self,
        fun: &str,
        arguments: &mut Arguments,
    ) -> Vec<(ArgumentPlace, Value)> {
        let parameters: &[Parameter] = self.0.get(fun).map_or(&[], |found| &found.parameters);
        take_secrets(parameters, arguments)
    }

    /// Runs `fun` for `job` to its end on this thread. Never panics: the panic of a function becomes
    /// its return.
    pub fn call(&self, fun: &str, arguments: Arguments, host: &Host, job: &JobControl) -> Outcome {
        self.call_hiding(fun, arguments, &[], host, job)
    }

    /// Runs a function as [`call`](Self::call) does. No failure shows the values of the arguments in `hidden`,
    /// and the text of a panic is left out if there are any: the code may have put a value into it.
    pub fn call_hiding(
        &self,
        fun: &str,
        arguments: Arguments,
        hidden: &[ArgumentPlace],
        host: &Host,
        job: &JobControl,
    ) -> Outcome {
        let Some(function) = self.0.get(fun) else {
            let known: Vec<&str> = self.0.iter().map(|(name, _)| name).collect();
            return Outcome::not_available(fun, &known);
        };
        let values = HiddenValues::of(&arguments, hidden);
        let run = || {
            let context = JobContext {
                host,
                job,
                modules: &self.0,
            };
            (function.code)(&context, function.bind_hiding(arguments, hidden)?)
        };
        let run = || match hidden {
            [] => run(),
            _ => hide_panic(run),
        };
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(Ok(outcome)) => judged(outcome),
            Ok(Err(failure)) => {
                let documentation = function.indented_documentation();
                values.hide_in(Outcome::of_failure(&failure, fun, &documentation))
            }
            Err(panic) => {
                let text = match hidden {
                    [] => panic_text(panic.as_ref()),
                    _ => "it panicked; the text is left out, since the call has secret arguments"
                        .to_owned(),
                };
                tracing::error!("{fun} panicked: {text}");
                Outcome::of_failure(&Failure::Exception(text), fun, "")
            }
        }
    }
}

/// As in Salt, a mapping that says `result: False` or `success: False` is a failure.
fn judged(mut outcome: Outcome) -> Outcome {
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
