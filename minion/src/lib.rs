//! The minion daemon as a library.
//!
//! A program needs only [`run`]: `fn main() -> ExitCode { saline_minion::run(registry) }`.
//! [`caller`] calls one function without a job.
//! Inside, [`Minion`] connects to its master and serves it; [`modules`] holds the functions,
//! [`grains`] the facts about the machine, [`spool`] the jobs that were begun and the returns that
//! are not acknowledged, and [`executor`] the threads that functions run on.

pub mod caller;
pub mod command;
mod daemon;
pub mod event_queue;
pub mod executor;
pub mod grains;
mod host;
mod jobs;
mod link;
pub mod modules;
mod oversize_output;
mod session;
pub mod spool;
mod spool_location;

pub use daemon::{Minion, StartError, command_line, run, run_with};
pub use host::Host;
