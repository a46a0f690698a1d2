//! What loads the whole machine, or fails on a loaded one, runs while nothing else of the suite does, in this process or in
//! another of the same target folder.

use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, flock};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{Requirement, report};

/// Gives the requirements of one run their turns.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Apart from the file's lock, which is not fair: those that share it, each after another, keep
    /// it from who needs it alone, and every such one keeps a thread of the run.
    of_this_process: RwLock<()>,
}

/// The turn of one requirement, until it is dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "held, and let go when dropped")]
pub(crate) enum Turn<'a> {
    Alone(RwLockWriteGuard<'a, ()>, io::Result<File>),
    Beside(RwLockReadGuard<'a, ()>, io::Result<File>),
}

impl Turns {
    /// Waits until `requirement` may run. Who needs to be alone goes before all who came later. Without a
    /// file to lock, nobody waits for another process.
    pub(crate) fn wait_for(&self, requirement: &Requirement) -> Turn<'_> {
        if requirement.is_exclusive() {
            return self.wait_until_alone();
        }
        let turn = self.of_this_process.blocking_read();
        Turn::Beside(turn, locked(FlockOperation::LockShared))
    }

    /// Waits until nothing else of the suite runs.
    pub(crate) fn wait_until_alone(&self) -> Turn<'_> {
        let turn = self.of_this_process.blocking_write();
        Turn::Alone(turn, locked(FlockOperation::LockExclusive))
    }
}

/// The file that every process of this target folder locks.
fn locked(operation: FlockOperation) -> io::Result<File> {
    let folder = report::folder();
    std::fs::create_dir_all(&folder)?;
    let file = File::create(folder.join(".quiet"))?;
    flock(&file, operation)?;
    Ok(file)
}
