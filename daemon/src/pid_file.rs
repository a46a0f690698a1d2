//! The pid file.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

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

/// Checks whether this process can write the pid file, as far as that can be told without writing it. The folders in
/// `made_before` exist by then.
///
/// # Errors
/// When it cannot.
pub fn check_pid_file(path: &Path, made_before: &[PathBuf]) -> Result<(), PidFileError> {
    let attempt = || {
        let mut above = path.ancestors().skip(1);
        if path.symlink_metadata().is_ok() {
            saline_private_files::open(path, saline_private_files::options().write(true))?;
        } else if let Some(nearest) = above.find(|above| above.exists())
            && !made_before.iter().any(|made| path.starts_with(made))
        {
            access(nearest, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
                io::Error::new(
                    io::Error::from(error).kind(),
                    format!("this user cannot write in {}", nearest.display()),
                )
            })?;
        }
        Ok(())
    };
    attempt().map_err(|source| PidFileError {
        path: path.to_owned(),
        source,
    })
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// The pid file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the pid file {}: {source}; pidfile or --pid-file names it", path.display())]
pub struct PidFileError {
    path: PathBuf,
    source: io::Error,
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

    #[test]
    fn a_pid_file_that_cannot_be_written_is_found_without_writing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/pid");
        check_pid_file(&path, &[]).unwrap();
        assert!(!path.parent().unwrap().exists());
        // Not even root can create anything below a file.
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let below = file.join("run");
        let error = check_pid_file(&below.join("pid"), &[]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("this user cannot write in /"), "{error}");
        check_pid_file(&below.join("pid"), &[below]).unwrap();
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        symlink("elsewhere", &path).unwrap();
        let error = check_pid_file(&path, &[]).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
    }
}
