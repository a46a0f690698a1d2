//! The pid file.

use std::path::{Path, PathBuf};

/// A file with the process id in it, removed when dropped.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(path: &Path) -> Result<Self, PidFileError> {
        let attempt = || {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(path, format!("{}\n", std::process::id()))
        };
        attempt().map_err(|source| PidFileError {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self(path.to_owned()))
    }
}

/// The pid file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the pid file {}: {source}; pidfile or --pid-file names it", path.display())]
pub struct PidFileError {
    path: PathBuf,
    source: std::io::Error,
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // A file that somebody else has removed already is as good.
        let _ = std::fs::remove_file(&self.0);
    }
}
