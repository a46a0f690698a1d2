//! Daemons under faults, and under a load that strangers make. Each test takes the whole machine, so these are apart
//! from `end_to_end`, and one runs at a time.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod chaos;
mod colluding_minions;
mod files;
mod strangers;
mod zmtp;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test of this program runs.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
