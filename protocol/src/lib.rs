//! Everything that a Saline master, its minions and every transport agree on. No sockets, no
//! policy.
//!
//! - [`transport`] is the contract that a backend implements. Who writes one needs nothing else here.
//! - [`layer`] puts one layer round every backend, which bounds and counts what it carries.
//! - [`channel`] makes it secret and says who speaks.
//! - [`message`] is what is said.
//! - [`private_files`] makes and opens the files that nobody else may read.
//! - [`printable`] says which characters of a peer's text a person may be shown.
//! - [`random`] is where randomness comes from.
//! - [`target`] says to whom.
//!
//! Of these, semantic versioning holds for [`transport`] and [`layer`]. Of the others the bytes on the
//! wire are promised, and not the Rust; `docs/versions.md` says what.

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
