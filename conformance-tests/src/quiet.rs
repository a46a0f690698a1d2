//! What measures a process, or loads the whole machine, runs while nothing else of the suite does,
//! in this process or in another of the same target folder.

use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, flock};

use crate::{Requirement, report};

/// Waits until `requirement` may run. It may until what is returned is dropped.
///
/// # Errors
/// When the lock file cannot be made; then nobody waits for anybody.
pub(crate) fn wait_for(requirement: &Requirement) -> io::Result<File> {
    let folder = report::folder();
    std::fs::create_dir_all(&folder)?;
    let file = File::create(folder.join(".quiet"))?;
    let operation = match requirement.is_exclusive() {
        true => FlockOperation::LockExclusive,
        false => FlockOperation::LockShared,
    };
    flock(&file, operation)?;
    Ok(file)
}
