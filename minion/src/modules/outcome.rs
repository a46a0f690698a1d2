//! How a function ends.

use saline_protocol::message::{RETCODE_INTERRUPTED, Value};

/// What an interrupted run returns, at a restart as at a stop.
pub const INTERRUPTED: &str = "The minion stopped while it ran this job";

/// The retcode of a function that is not there.
const RETCODE_NOT_AVAILABLE: i64 = 254;

/// A value and a retcode: what goes back to the master.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What is shown.
    pub value: Value,
    /// 0 is success.
    pub retcode: i64,
}

impl Outcome {
    /// It ended with `retcode`.
    pub fn new(value: impl Into<Value>, retcode: i64) -> Self {
        Self {
            value: value.into(),
            retcode,
        }
    }

    /// Whether it did what it was asked to.
    pub fn success(&self) -> bool {
        self.retcode == 0
    }

    /// There is no function of that name.
    pub fn not_available(fun: &str) -> Self {
        Self::new(format!("'{fun}' is not available."), RETCODE_NOT_AVAILABLE)
    }

    /// The minion stopped, or was stopped, in the middle of it.
    pub fn interrupted() -> Self {
        Self::new(INTERRUPTED, RETCODE_INTERRUPTED)
    }
}

impl<T: Into<Value>> From<T> for Outcome {
    /// Success.
    fn from(value: T) -> Self {
        Self::new(value, 0)
    }
}

/// Why a function did not do what it was asked to. The text that an operator sees is Salt's for
/// the same case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The arguments do not fit; the documentation is shown with it.
    Arguments(String),
    /// They fit, but ask for something that cannot be.
    Invocation(String),
    /// It could not be carried out.
    Execution(String),
    /// Something went wrong that nobody foresaw.
    Exception(String),
    /// The minion stops.
    Interrupted,
}

impl Failure {
    /// What is returned for it, for function `fun` with that documentation.
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
            Self::Interrupted => Outcome::interrupted(),
        }
    }
}
