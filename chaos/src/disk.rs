//! The small disk of the master, which can be filled.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};

/// The size of the disk. It holds the jobs of a run with its largest returns.
const SIZE: &str = "size=1g,mode=0700";

/// The file that fills the disk.
const FILLER: &str = "filler";

/// What is written at once.
const BLOCK: usize = 1024 * 1024;

/// A tmpfs on the master's cachedir. Dropping it unmounts it.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    path: PathBuf,
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
    /// Mounts the disk on a folder.
    ///
    /// # Errors
    /// Why this machine forbids it.
    pub(crate) fn mount(path: &Path) -> Result<Self, String> {
        mount("tmpfs", path, "tmpfs", MountFlags::empty(), Some(&*size()))
            .map_err(|error| format!("no tmpfs can be mounted: {error}"))?;
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Fills the disk.
    ///
    /// # Errors
    /// When the file that fills it cannot be created.
    pub(crate) fn fill(&self) -> std::io::Result<()> {
        let mut file = File::create(self.path.join(FILLER))?;
        let mut block = vec![0; BLOCK];
        // Smaller and smaller, so that nothing is left.
        while !block.is_empty() {
            while file.write_all(&block).is_ok() {}
            block.truncate(block.len() / 2);
        }
        Ok(())
    }

    /// Makes room again.
    ///
    /// # Errors
    /// When the file that fills it cannot be deleted.
    pub(crate) fn relieve(&self) -> std::io::Result<()> {
        std::fs::remove_file(self.path.join(FILLER))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It ends with the last process of this run at the latest.
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

fn size() -> std::ffi::CString {
    std::ffi::CString::new(SIZE).unwrap_or_default()
}
