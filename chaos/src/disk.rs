//! Small disks of daemons, which can be filled.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, mount_remount, unmount,
};

/// A tmpfs on the state_dir of a daemon. Dropping it unmounts it.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    path: PathBuf,
    /// The size of the disk in bytes while it has room.
    size: u64,
}

/// Gives this process, which must have one thread, mounts of its own, so that none outlives the run.
///
/// # Errors
/// Why this machine forbids it.
pub(crate) fn own_mounts() -> Result<(), String> {
    #[allow(
        unsafe_code,
        reason = "unshare is unsafe because of flags about memory and descriptors; this is not one of them"
    )]
    // SAFETY: only the namespace of mounts is unshared, which no Rust object depends on.
    let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) };
    unshared.map_err(|error| format!("no mounts of its own: {error}"))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(|error| format!("mounts stay shared: {error}"))
}

impl SmallDisk {
    /// Mounts a disk of so many bytes on a folder, which is created.
    ///
    /// # Errors
    /// Why this machine forbids it.
    pub(crate) fn mount(path: &Path, size: u64) -> Result<Self, String> {
        std::fs::create_dir_all(path)
            .map_err(|error| format!("{} cannot be created: {error}", path.display()))?;
        mount(
            "tmpfs",
            path,
            "tmpfs",
            MountFlags::empty(),
            Some(&*size_option(size)),
        )
        .map_err(|error| format!("no tmpfs can be mounted: {error}"))?;
        Ok(Self {
            path: path.to_owned(),
            size,
        })
    }

    /// Leaves no room beside what is stored: the disk shrinks to that.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn fill(&self) -> std::io::Result<()> {
        let disk = rustix::fs::statvfs(&self.path)?;
        let used = disk.f_blocks.saturating_sub(disk.f_bfree) * disk.f_frsize;
        self.resize(used.max(disk.f_frsize))
    }

    /// Makes room again.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn relieve(&self) -> std::io::Result<()> {
        self.resize(self.size)
    }

    fn resize(&self, bytes: u64) -> std::io::Result<()> {
        mount_remount(&self.path, MountFlags::empty(), &*size_option(bytes))?;
        Ok(())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It ends with the last process of this run at the latest.
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

fn size_option(bytes: u64) -> CString {
    // A number contains no zero byte.
    CString::new(format!("size={bytes},mode=0700")).unwrap_or_default()
}
