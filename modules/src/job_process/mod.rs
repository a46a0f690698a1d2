//! Jobs that outlive their minion: each runs whole in a process of its own, the program `saline-job`.
//!
//! A function that runs commands of an operator, or changes something, says so in its declaration
//! ([`RunsIn::OwnProcess`](saline_functions::RunsIn)). The minion starts `saline-job` for it, which gets the call in a file
//! in memory, runs the function, and leaves the return in the job's folder. The process needs no minion; the
//! next minion finds it by the folder, goes on with it, and delivers its return.
//!
//! Old and new processes share files alone: the folder below `sock_dir/jobs`, which a restart of the machine empties, and
//! a socket in it through which signals go. All of them say their version.
//!
//! | step | after a kill of the minion here, the next one |
//! |---|---|
//! | the spool has the beginning | returns that the job was interrupted: it did not run |
//! | the folder is there | takes the lock of its file `job` and removes it: a process that starts late does not run |
//! | the process holds the lock | goes on with the job |
//! | the process has ended, its return is in the folder | puts the return into the spool |
//! | the spool has the return | removes the folder |

mod call;
mod control;
mod folder;
mod left_behind;
mod log_lines;
mod process;
mod program;
mod record;
mod result;
mod versioned;

pub use folder::JobFolders;
pub use left_behind::{LeftJob, LeftProcess, find};
pub use process::{JobCall, JobEnd, JobProcess, JobProcesses, StartError};
pub use program::main;
pub use record::JobRecord;
pub use result::JobResult;

pub(crate) use call::Call;

/// The name of the program.
pub const PROGRAM: &str = "saline-job";
