//! What the functions of a minion work with.

use std::time::Duration;

use saline_functions::{BoundArguments, Context, Failure};

use super::Outcome;
use super::outcome::{ended, interrupted};
use crate::Modules;
use crate::command::{Command, CommandError, Finished};
use crate::host::Host;
use crate::job::JobControl;

/// What a function of a minion works with: its job, and the parts of the minion. It runs on a thread of its own and may
/// block.
#[derive(Debug)]
pub struct JobContext<'a> {
    /// The minion that the function runs on.
    pub host: &'a Host,
    /// The job that the function runs for.
    pub job: &'a JobControl,
    /// The full name of the function.
    pub function: &'a str,
    /// The modules of the minion.
    pub modules: &'a Modules,
}

impl Context for JobContext<'_> {
    type Returned = Outcome;
    type Code = for<'a> fn(&'a JobContext<'a>, BoundArguments) -> Result<Outcome, Failure>;
}

impl JobContext<'_> {
    /// Runs a command to its end, as [`Command::run`] does.
    ///
    /// # Errors
    /// When it cannot be started, and when the minion stops or the job is ended before its end.
    pub fn run(&self, command: &Command) -> Result<Finished, Failure> {
        command
            .run(self.host, self.job)
            .map_err(|error| match error {
                CommandError::Stopped => interrupted(),
                CommandError::Ended(ending) => ended(&ending),
                error => Failure::Execution(error.to_string()),
            })
    }

    /// Waits for `duration`.
    ///
    /// # Errors
    /// When the minion stops or the job is ended before.
    pub fn wait(&self, duration: Duration) -> Result<(), Failure> {
        self.host.wait(self.job, duration)
    }
}
