//! Version 1: a minion, an operator, and a master that is just large enough for one minion.
//!
//! | module | holds |
//! |---|---|
//! | [`messages`] | the messages, and how they are encoded |
//! | [`header`] | the clear header of every message |
//! | [`keys`] | identities, Noise keys, and their files |
//! | [`cipher`] | what seals records and publications |
//! | [`handshake`] | Noise XX and IK, from both sides |
//! | [`session`] | the connecting side of a session |
//! | [`publication`] | topics, keys and numbers of publications, and the signature of a job |
//! | [`minion`] | a minion that runs `test.ping` |
//! | [`operator`] | an operator on the master's machine |
//! | [`master`] | a master |
//!
//! This code does not change with the protocol. It may follow a library that it uses, never a message: a
//! message that has to change here is one that older machines no longer understand.
#![allow(
    clippy::unwrap_used,
    reason = "a peer is a part of a test, and says by panicking that it cannot go on"
)]

pub mod cipher;
pub mod handshake;
pub mod header;
pub mod keys;
pub mod master;
pub mod messages;
pub mod minion;
pub mod operator;
pub mod publication;
pub mod session;

use std::time::Duration;

/// How long a peer waits for anything; far more than anything takes on a busy machine.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns random bytes.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}
