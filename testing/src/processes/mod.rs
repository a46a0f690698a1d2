//! Processes of Saline: their programs, folders, ports and logs.

mod daemon;
mod folders;
mod jobs;
mod log;
mod ports;
mod process;
mod programs;
mod resident;

pub use daemon::Daemon;
pub use folders::{Folders, MinionFile};
pub use jobs::end_jobs_below;
pub use log::Log;
pub use ports::Ports;
pub use process::{Process, ended};
pub use programs::Programs;
pub use resident::resident_bytes;

use std::time::Duration;

/// The time that a process has for anything; far more than anything takes on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);
