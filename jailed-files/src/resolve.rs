//! Resolves a path beneath a folder: with `openat2` where the system has it, otherwise by a walk.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::walk;

/// How often a path with `..` is resolved again when somebody renames anything meanwhile, which `openat2` reports. Then it is walked:
/// whoever renames all the time must not keep others from their files.
const RETRIES: usize = 32;

/// Whether this process has met a system without `openat2`: what the system can do, and not state of ours.
static HAS_NO_OPENAT2: AtomicBool = AtomicBool::new(false);

/// Opens what a path beneath `root` names. Links are followed as long as they stay beneath it.
pub(crate) fn open_beneath(root: impl AsFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    if HAS_NO_OPENAT2.load(Ordering::Relaxed) {
        return walk::open_beneath(root.as_fd(), path, flags);
    }
    match by_openat2(root.as_fd(), path, flags) {
        // Sandboxes answer with either; a folder that may not be searched with `EACCES`.
        Err(Errno::NOSYS | Errno::PERM) => {
            let walked = walk::open_beneath(root.as_fd(), path, flags);
            if !matches!(walked, Err(Errno::PERM)) {
                HAS_NO_OPENAT2.store(true, Ordering::Relaxed);
            }
            walked
        }
        Err(Errno::AGAIN) => walk::open_beneath(root.as_fd(), path, flags),
        opened => opened,
    }
}

/// Opens what a path beneath `root` names with `openat2` alone. `AGAIN` says that too much was renamed meanwhile.
pub(crate) fn by_openat2(root: impl AsFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { "." } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::CLOEXEC;
    for _ in 0..RETRIES {
        match openat2(root.as_fd(), path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => continue,
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}
