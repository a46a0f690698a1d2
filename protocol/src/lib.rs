//! The contract between Saline and the transports that carry its messages. No sockets, no policy.
//!
//! - [`transport`] is the contract that a backend implements. To write one, nothing else is needed.
//! - [`layer`] wraps every backend in limits and counters.
//!
//! Semantic versioning holds for this crate, and for no other of Saline: see `docs/versions.md`.

pub mod layer;
pub mod transport;
