//! The outcome of a function.

use saline_data::Value;
use saline_messages::RETCODE_INTERRUPTED;

use crate::executor::Ending;

/// The return of an interrupted run, after a restart as after a stop.
pub const INTERRUPTED: &str = "The minion stopped while it ran this job";

/// The retcode of an unknown function.
const RETCODE_NOT_AVAILABLE: i64 = 254;

/// The value and the retcode of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The returned value.
    pub value: Value,
    /// The retcode; 0 for success.
    pub retcode: i64,
}

impl Outcome {
    /// Creates an outcome.
    pub fn new(value: impl Into<Value>, retcode: i64) -> Self {
        Self {
            value: value.into(),
            retcode,
        }
    }

    /// Whether the function succeeded.
    pub fn success(&self) -> bool {
        self.retcode == 0
    }

    /// Returns the outcome of an unknown function.
    pub fn not_available(fun: &str) -> Self {
        Self::new(format!("'{fun}' is not available."), RETCODE_NOT_AVAILABLE)
    }

    /// Returns the outcome of a function that the minion's end interrupted.
    pub fn interrupted() -> Self {
        Self::new(INTERRUPTED, RETCODE_INTERRUPTED)
    }
}

impl<T: Into<Value>> From<T> for Outcome {
    /// Creates a successful outcome.
    fn from(value: T) -> Self {
        Self::new(value, 0)
    }
}

/// The reason why a function failed. The texts that an operator sees are Salt's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The arguments do not fit the parameters; the documentation is printed with the error.
    Arguments(String),
    /// The arguments fit, but ask for something impossible.
    Invocation(String),
    /// The function could not do its work.
    Execution(String),
    /// An unforeseen error.
    Exception(String),
    /// A command printed more than a return can hold.
    Oversize {
        /// The size of the output, and where it is.
        why: String,
        /// The retcode of the command.
        retcode: i64,
    },
    /// The minion stops.
    Interrupted,
    /// Another job ended this one while it ran.
    Ended(Ending),
    /// Another job ended this one before it began.
    EndedBeforeStart(Ending),
}

impl Failure {
    /// Returns the outcome for a failure of the function `fun` with the documentation `doc`.
    pub fn outcome(self, fun: &str, doc: &str) -> Outcome {
        match self {
            Self::Arguments(why) => Outcome::new(
                format!("Passed invalid arguments to {fun}: {why}\n{doc}"),
                1,
            ),
            Self::Invocation(why) => Outcome::new(format!("ERROR executing '{fun}': {why}"), 1),
            Self::Execution(why) => Outcome::new(format!("ERROR: {why}"), 1),
            Self::Exception(why) => {
                Outcome::new(format!("The minion function caused an exception: {why}"), 1)
            }
            Self::Oversize { why, retcode } => {
                // A command that succeeded fails too, because its output is missing.
                let shown = if retcode == 0 { 1 } else { retcode };
                Outcome::new(
                    format!("ERROR: {why}; the command's retcode was {retcode}"),
                    shown,
                )
            }
            Self::Interrupted => Outcome::interrupted(),
            Self::Ended(ending) => Outcome::new(format!("This job was {ending}"), ending.retcode()),
            Self::EndedBeforeStart(ending) => Outcome::new(
                format!("This job was {ending} before it began"),
                ending.retcode(),
            ),
        }
    }
}
