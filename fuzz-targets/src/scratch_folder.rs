//! A folder for the targets whose decoders read files.

use std::path::Path;

use tempfile::TempDir;

/// A folder in memory, where the system has such a thing: a target makes thousands in a second.
pub(crate) struct ScratchFolder(TempDir);

const IN_MEMORY: &str = "/dev/shm";

impl ScratchFolder {
    pub(crate) fn new() -> Self {
        let made = tempfile::tempdir_in(IN_MEMORY).or_else(|_| tempfile::tempdir());
        Self(made.expect("a target cannot run without a folder for its files"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, and returns its path.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = self.path().join(name);
        // As the decoders of keys demand it.
        saline_private_files::write(&path, bytes).expect("a target cannot run without its files");
        path
    }
}
