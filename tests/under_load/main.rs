//! Daemons under faults, and under a load that minions and strangers make. They are apart from `end_to_end` since the loads take the
//! whole machine: each of them runs alone, and the faults, which wait most of their time, beside each other.
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
async fn beside_others() -> RwLockReadGuard<'static, ()> {
    TURNS.read().await
}

/// The same, for a test that is not asynchronous.
fn blocking_beside_others() -> RwLockReadGuard<'static, ()> {
    TURNS.blocking_read()
}
