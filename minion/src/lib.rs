//! The minion daemon as a library.
//!
//! A program needs only [`run`]: `fn main() -> ExitCode { saline_minion::run(registry) }`.
//! [`caller`] calls one function without a job.
//! Inside, [`Minion`] connects to its master and serves it; [`modules`] holds the functions and what they work with, and
//! [`spool`] the jobs that were begun and the returns that are not acknowledged.

mod call;
pub mod caller;
mod daemon;
mod jobs;
mod link;
mod local_bus;
mod own_jid;
mod session;
pub mod spool;
mod spool_location;

pub use daemon::{Minion, StartError, command_line, run, run_with};
pub use saline_modules as modules;
