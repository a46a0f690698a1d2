//! One way to start a process: every command of a daemon is started by the small program `saline-exec`.
//!
//! A daemon has threads, a hundred descriptors, and an environment that is nobody else's business. It starts
//! `saline-exec`, and sends it a [`Description`] of the command and the command's three streams over a socket.
//! `saline-exec` closes whatever else it inherited, starts the command as described, in a session of its own
//! (a process group without a terminal), and tells the pid or the [`Step`] that failed. It reports the [`End`] of the command, and ends with it.
//!
//! The pid of a command is reserved until the daemon has let go of its [`Process`]: `saline-exec` reaps the
//! command only then. So a signal to the process group of a command never reaches another one.
//!
//! A command that says so ends when the daemon ends. One that is to outlive it is the business of a program of Saline
//! that the daemon starts beside `saline-exec` ([`Launcher::start_program`]), and which starts commands in the same way.
//!
//! The main of the program is [`main`]. The daemon's part is [`Launcher`].
//!
//! # For packages
//! The program belongs into the folder of the daemons, where `cargo build` puts it. Optimised as a whole (the profile `dist`) it
//! has 0.35 MB, and its start takes 0.70 ms of CPU time, where `/bin/true` takes 0.51. Linked statically
//! (`cargo rustc --profile dist --bin saline-exec -- -C target-feature=+crt-static`) it takes 0.56 ms, and has 1.2 MB, since glibc
//! brings what it loads names and locales with. It looks no user up (the library's part in the daemon does), so it loses
//! nothing by that.

mod command;
mod description;
mod detach;
mod end;
mod environment;
mod frame;
mod launch_error;
mod launcher;
mod process;
mod program;
mod streams;
mod supervisor;
#[cfg(test)]
mod tests;
mod user;

pub use description::{Description, Folder, Limit, Resource};
pub use detach::detach;
pub use end::{End, Step};
pub use environment::{Environment, InvalidVariable};
pub use launch_error::LaunchError;
pub use launcher::Launcher;
pub use process::Process;
pub use program::Program;
pub use streams::Streams;
pub use supervisor::main;
pub use user::{User, UserError};
