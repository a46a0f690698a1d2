//! Runs a program under `saline-exec`: both streams drained, bounded in time and size.

mod child;
mod describe;
mod output;
#[cfg(test)]
pub(crate) mod tests;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use saline_exec::{InvalidVariable, LaunchError, UserError};

use crate::job::Ending;

pub use output::Output;
pub use words::{UnclosedQuote, split};

/// A program to be run.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The working folder; the home of the command's user by default, or `/` if the user cannot enter it.
    pub folder: Option<PathBuf>,
    /// The user; the minion's own by default.
    pub user: Option<String>,
    /// The group, beside those of the user; the user's own by default.
    pub group: Option<String>,
    /// The umask; the minion's own by default.
    pub umask: Option<u32>,
    /// Names and values that are added to the environment; a name without a value is removed.
    pub environment: Vec<(String, Option<String>)>,
    /// Whether the environment starts empty.
    pub clean_environment: bool,
    /// The standard input.
    pub input: Vec<u8>,
    /// The time after which the whole process group is killed.
    pub timeout: Option<Duration>,
    /// Whether both output streams are merged into one, in the order of their bytes.
    pub merged: bool,
    /// Whether nobody reads the output: what does not fit into memory is not stored.
    pub discards_output: bool,
    /// Whether the command is left alone once it has started: its output is thrown away, its timeout does not
    /// hold, and it outlives the minion.
    pub background: bool,
}

/// The end of a program.
#[derive(Debug)]
pub struct Finished {
    /// The process id.
    pub pid: u32,
    /// The exit code, or 128 plus the number of the signal that ended the program; 0 for a program in the background.
    pub retcode: i64,
    /// Whether the program was killed because of its timeout.
    pub timed_out: bool,
    /// The standard output, or both streams if they are merged.
    pub stdout: Output,
    /// The standard error output.
    pub stderr: Output,
}

/// The reason why a program did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The command line is empty.
    #[error("there is no command to run")]
    Empty,
    /// The program cannot be started.
    #[error("cannot run {program:?}: {source}")]
    Start {
        /// The program.
        program: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The user cannot be had.
    #[error(transparent)]
    User(#[from] UserError),
    /// The user cannot enter the working folder.
    #[error("cannot enter the folder {}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The environment is impossible.
    #[error(transparent)]
    Environment(#[from] InvalidVariable),
    /// Nothing can be started, or not as described.
    #[error("cannot run a command: {0}")]
    Launch(#[source] LaunchError),
    /// Reading or writing the program's streams failed.
    #[error("lost touch with the command: {0}")]
    Streams(#[from] std::io::Error),
    /// The minion stops, and killed the program.
    #[error("the minion stops")]
    Stopped,
    /// The job was ended before the program was started.
    #[error("{0}")]
    Ended(Ending),
}
