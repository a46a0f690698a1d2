//! Daemons under faults, and under a load that strangers make. These take the whole machine, so they are apart from
//! `end_to_end`: runs of faults beside each other, since they wait most of their time, and each load alone.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod chaos;
mod colluding_minions;
mod files;
mod strangers;
mod zmtp;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static TURNS: RwLock<()> = RwLock::new(());

/// Waits until no other test of this program runs.
fn alone() -> RwLockWriteGuard<'static, ()> {
    TURNS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until none runs that has to be alone.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    TURNS.read().unwrap_or_else(PoisonError::into_inner)
}
