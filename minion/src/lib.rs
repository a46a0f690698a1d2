//! The minion daemon as a library.
//!
//! [`run`] is all that a program needs: `fn main() -> ExitCode { saline_minion::run(registry) }`.
//! Inside, [`Minion`] finds its master and attends to it; [`modules`] are what can be run,
//! [`grains`] what is known of the machine, [`spool`] what must not be forgotten, and [`executor`]
//! the threads that functions run on.

pub mod command;
mod daemon;
pub mod executor;
pub mod grains;
mod host;
mod leftover;
pub mod modules;
pub mod spool;

pub use daemon::{Minion, StartError, run};
pub use host::Host;
