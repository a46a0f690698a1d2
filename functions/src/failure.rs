//! Why a function has no return.

use crate::ArgumentError;

/// Why a function has no return. Each is shown in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The arguments do not fit the parameters.
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    /// The arguments fit, but ask for something impossible.
    #[error("{0}")]
    Invocation(String),
    /// The function could not do its work.
    #[error("{0}")]
    Execution(String),
    /// The function met an unforeseen error.
    #[error("{0}")]
    Exception(String),
    /// Something ended the function or what it ran. The text is its return.
    #[error("{text}")]
    Ended {
        /// What ended it.
        text: String,
        /// The retcode of the function; not 0.
        retcode: i64,
    },
}
