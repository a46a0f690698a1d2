//! Checks names and passwords by PAM, and what starts the program that does.
//!
//! A master gives up the rights of root, and PAM needs them to read `/etc/shadow`. So the master starts `saline-pam` before, and
//! sends it names and passwords over a pair of sockets. The program can do nothing else: it says whether a password is right, and
//! whether the account may be used. Each question is answered by a process of its own, since modules of PAM may hang, crash, or
//! leave something behind in a process.
//!
//! | module | has |
//! |---|---|
//! | `helper` | what the master holds: starts the program and asks it |
//! | `program` | the program: takes questions, and starts a process for each |
//! | `question` | how questions and verdicts travel |
//! | `conversation` | one check: the account of PAM, and the password for whatever a module asks |
//! | `library` | the functions of libpam, which is loaded when the first check begins |
//!
//! The program is started without `saline-exec`, by which everything else is: it begins before the
//! master gives up the rights of root, and it runs what this crate says and no command.
//!
//! The service is named `saline`: `/etc/pam.d/saline` says how it checks.

mod conversation;
mod helper;
mod library;
pub mod program;
mod question;

pub use helper::{PamError, PamHelper, PamProcess};
pub use question::{MAX_TEXT, Verdict};

/// The name of the service, after which the file below `/etc/pam.d` is named.
pub const SERVICE: &str = "saline";
