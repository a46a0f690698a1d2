//! The pid file.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A file with the process id in it, removed when dropped.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file (0600), and makes the folder around it (0700) if it is missing. A link in its place is
    /// not followed. On a full disk the log says that the file is missing, and the daemon goes on without it.
    ///
    /// # Errors
    /// When the file cannot be written, or somebody else could change it.
    pub fn write(path: &Path) -> Result<Self, PidFileError> {
        let attempt = || {
            // The folder may be the system's, for all programs: it is made if it is missing, not checked.
            if let Some(folder) = path.parent() {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(folder)?;
            }
            saline_private_files::write(path, format!("{}\n", std::process::id()).as_bytes())
        };
        match attempt() {
            Ok(()) => Ok(Self(path.to_owned())),
            Err(error) if is_full(&error) => {
                // An empty one would be taken for a file that somebody is writing.
                let _ = std::fs::remove_file(path);
                tracing::warn!(
                    "the pid file {} is missing, since its disk is full",
                    path.display()
                );
                Ok(Self(path.to_owned()))
            }
            Err(source) => Err(PidFileError {
                path: path.to_owned(),
                source,
            }),
        }
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
    )
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_pid_file_is_private_and_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/pid");
        let file = PidFile::write(&path).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        drop(file);
        assert!(!path.exists());

        let precious = folder.path().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        symlink(&precious, &path).unwrap();
        let error = PidFile::write(&path).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    }
}
