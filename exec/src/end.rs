//! What `saline-exec` reports of a command.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use crate::Resource;

/// A report of `saline-exec`. The first is `Started` or `Failed`; `Ended` follows `Started`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command runs. Its process leads a process group.
    Started { pid: u32 },
    /// The command was not started.
    Failed(Failure),
    /// The command has ended.
    Ended(End),
}

/// A step that failed, and the error number of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) errno: i32,
}

impl Failure {
    pub(crate) fn new(step: Step, errno: i32) -> Self {
        Self { step, errno }
    }

    pub(crate) fn of(step: Step, error: &io::Error) -> Self {
        Self::new(step, error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// A step on the way to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// `saline-exec` reads the description.
    Description,
    /// The description is of the version that `saline-exec` knows.
    Version,
    /// A process is made.
    Fork,
    /// The process gets a session of its own, which is also a process group.
    Session,
    /// The process is moved to its cgroup.
    Cgroup,
    /// A resource limit is set.
    Limit(Resource),
    /// The process gets the user and its groups.
    User,
    /// The working folder is entered.
    Folder,
    /// The streams become the descriptors 0, 1 and 2.
    Streams,
    /// The program is executed.
    Program,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Description => f.write_str("cannot read the description of the command"),
            Self::Version => f.write_str(
                "saline-exec is of another version than this daemon; restart the daemon",
            ),
            Self::Fork => f.write_str("cannot make a process"),
            Self::Session => f.write_str("cannot make a session"),
            Self::Cgroup => f.write_str("cannot enter the cgroup"),
            Self::Limit(resource) => write!(f, "cannot set the limit {resource:?}"),
            Self::User => f.write_str("cannot become the user"),
            Self::Folder => f.write_str("cannot enter the working folder"),
            Self::Streams => f.write_str("cannot set the standard streams"),
            Self::Program => f.write_str("cannot execute the program"),
        }
    }
}

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The command ended with this exit code.
    Exited(i32),
    /// This signal ended the command.
    Killed(i32),
}

impl End {
    /// Returns the exit code, or 128 plus the number of the signal, as a shell tells it.
    pub fn retcode(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => 128 + signal,
        }
    }
}
