//! Daemons under faults, and under a load that strangers make. These take the whole machine, so they are apart from
//! `end_to_end`: runs of faults beside each other, since they wait most of their time, and each load alone.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod faults;
mod loads;

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Read by tests that bear each other, and written by those that bear none. It is fair: tests get it in the order of their names.
static TURNS: RwLock<()> = RwLock::const_new(());

/// Waits until no other test of this program runs.
fn alone() -> RwLockWriteGuard<'static, ()> {
    TURNS.blocking_write()
}

/// Waits until none runs that has to be alone.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    TURNS.blocking_read()
}
