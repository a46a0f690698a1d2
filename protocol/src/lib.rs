//! The definitions that a Saline master, its minions and every transport share. No sockets, no
//! policy.
//!
//! - [`transport`] is the contract that a backend implements. To write one, nothing else here is needed.
//! - [`layer`] wraps every backend in limits and counters.
//! - [`channel`] encrypts and authenticates: identities, sessions, records and publications.
//! - [`message`] has the messages between a master and its peers.
//! - [`private_files`] creates and opens the files that nobody else may read.
//! - [`printable`] escapes the characters of a peer's text that a terminal or a log must not get.
//! - [`random`] reads randomness from the operating system.
//! - [`target`] parses and matches the expressions that choose minions.
//!
//! Semantic versioning holds for [`transport`] and [`layer`]. Of the other modules, the bytes on the wire
//! are promised, and not the Rust code: see `docs/versions.md`.

pub mod channel;
pub mod layer;
pub mod message;
pub mod printable;
pub mod private_files;
pub mod random;
#[cfg(feature = "chaos")]
pub mod sabotage;
pub mod target;
pub mod transport;
