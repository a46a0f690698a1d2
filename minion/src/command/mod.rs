//! Runs a program: in a process group of its own, both streams drained, bounded in time and size.

mod child;
pub(crate) mod orphans;
mod output;
mod words;

use std::path::PathBuf;
use std::time::Duration;

pub use output::Output;
pub use words::{UnclosedQuote, split};

/// What to run, and how.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Where; the minion's own folder unless given.
    pub folder: Option<PathBuf>,
    /// Names and values that are added to the environment; none takes the name away.
    pub environment: Vec<(String, Option<String>)>,
    /// Whether the environment begins empty.
    pub clean_environment: bool,
    /// What it reads.
    pub input: Vec<u8>,
    /// After which it is killed with everything in its process group.
    pub timeout: Option<Duration>,
    /// Whether what it prints on either stream is put into one, in the order in which it came.
    pub merged: bool,
}

/// How a program ended.
#[derive(Debug)]
pub struct Finished {
    /// Its process id.
    pub pid: u32,
    /// What it exited with; 128 and the signal's number when one ended it.
    pub retcode: i64,
    /// Whether it was killed because its time was over.
    pub timed_out: bool,
    /// What it printed; on either stream when they are merged.
    pub stdout: Output,
    /// What it printed on the other one.
    pub stderr: Output,
}

/// Why a program did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is nothing to run.
    #[error("there is no command to run")]
    Empty,
    /// The system would not start it.
    #[error("cannot run {program:?}: {source}")]
    Start {
        /// What.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// Reading or writing its streams failed.
    #[error("lost touch with the command: {0}")]
    Streams(#[from] std::io::Error),
    /// The minion stops, and killed it.
    #[error("the minion stops")]
    Stopped,
}
