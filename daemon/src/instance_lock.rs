//! The lock that keeps a second instance of a daemon from running.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The reason why the lock was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process holds the lock.
    #[error("another instance runs already{}: it holds {}", pid.map(|p| format!(" with pid {p}")).unwrap_or_default(), path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The process id in the lock file.
        pid: Option<u32>,
    },
    /// The lock file cannot be created or locked.
    #[error("cannot take the lock {}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
}

/// A lock file (`flock`), held until it is dropped or its process ends.
#[derive(Debug)]
#[must_use = "the lock is held no longer than this lives"]
pub struct InstanceLock {
    // Closing the file is what gives the lock back.
    _file: File,
}

impl InstanceLock {
    /// Takes `path`, makes the folder around it (0700) and writes the process id into it. Does not wait.
    ///
    /// The file stays when the lock is given back: were it removed, two could hold a lock of the
    /// same name on different files.
    ///
    /// # Errors
    /// When another process holds it, the file system says no, or somebody else could change the folder.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let io = |source| LockError::Io {
            path: path.to_owned(),
            source,
        };
        if let Some(folder) = path.parent() {
            saline_private_files::create_folder(folder).map_err(io)?;
        }
        let mut options = saline_private_files::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = saline_private_files::open(path, &options).map_err(io)?;
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(io(error.into()));
            }
            let mut text = String::new();
            // Who holds it is a kindness; that it is held is known without it.
            let _ = file.take(32).read_to_string(&mut text);
            return Err(LockError::Held {
                path: path.to_owned(),
                pid: text.trim().parse().ok(),
            });
        }
        // On a full disk the lock is held all the same.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock/.lock");
        let first = InstanceLock::take(&path).unwrap();
        let error = InstanceLock::take(&path).unwrap_err();
        assert!(
            matches!(&error, LockError::Held { pid: Some(pid), .. } if *pid == std::process::id()),
            "{error}"
        );
        drop(first);
        let _again = InstanceLock::take(&path).unwrap();
    }
}
