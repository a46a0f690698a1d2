//! The reasons why a command was not started.

use std::io;
use std::path::PathBuf;

use crate::Step;

/// The reason why a command was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A program that daemons start is not installed.
    #[error(
        "{} is missing, without which this program runs no command or job as it should; install it beside this program",
        .0.display()
    )]
    Missing(PathBuf),
    /// The program `saline-exec` cannot be started.
    #[error("cannot start {}: {source}", path.display())]
    Program {
        /// The path of the program.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The program `saline-exec` ended, or was not understood.
    #[error("lost touch with saline-exec: {0}")]
    Lost(#[source] io::Error),
    /// The description cannot be carried out.
    #[error("{step}: {source}")]
    Step {
        /// The step that failed.
        step: Step,
        /// The error of the system.
        source: io::Error,
    },
}
