//! The lock that keeps a second instance of a daemon from running.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

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
    /// As [`take`](Self::take), but waits for so long for the process that holds the lock: a program may hold it for an instant, as
    /// `saline-key` does beside a master that starts.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_within(path: &Path, within: Duration) -> Result<Self, LockError> {
        let held = match Self::take(path) {
            Err(held @ LockError::Held { .. }) => held,
            taken => return taken,
        };
        let (taken, is_taken) = sync_channel(1);
        let file = open(path)?;
        // The system bounds no wait for a lock. A thread that gets it too late gives it back, and ends with the process at last.
        std::thread::spawn(move || {
            let locked = flock(&file, FlockOperation::LockExclusive).map(|()| file);
            let _ = taken.send(locked);
        });
        match is_taken.recv_timeout(within) {
            Ok(Ok(file)) => Ok(Self::held(file)),
            Ok(Err(error)) => Err(LockError::io(path, error.into())),
            Err(_) => Err(held),
        }
    }

    /// Takes `path`, makes the folder around it (0700) and writes the process id into it. Does not wait.
    ///
    /// The file stays when the lock is given back: were it removed, two could hold a lock of the
    /// same name on different files.
    ///
    /// # Errors
    /// When another process holds it, the file system says no, or somebody else could change the folder.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let file = open(path)?;
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(LockError::io(path, error.into()));
            }
            let mut text = String::new();
            // Who holds it is a kindness; that it is held is known without it.
            let _ = file.take(32).read_to_string(&mut text);
            return Err(LockError::Held {
                path: path.to_owned(),
                pid: text.trim().parse().ok(),
            });
        }
        Ok(Self::held(file))
    }

    /// Writes the process id into the locked file.
    fn held(mut file: File) -> Self {
        // On a full disk the lock is held all the same.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Self { _file: file }
    }
}

impl LockError {
    fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// Opens the lock file, and makes it and the folder around it if they are missing.
fn open(path: &Path) -> Result<File, LockError> {
    let open = || {
        if let Some(folder) = path.parent() {
            saline_private_files::create_folder(folder)?;
        }
        let mut options = saline_private_files::options();
        options.read(true).write(true).create(true).truncate(false);
        saline_private_files::open(path, &options)
    };
    open().map_err(|error| LockError::io(path, error))
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

    #[test]
    fn a_lock_that_is_held_for_an_instant_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        let first = InstanceLock::take(&path).unwrap();
        let short = Duration::from_millis(20);
        let error = InstanceLock::take_within(&path, short).unwrap_err();
        assert!(matches!(error, LockError::Held { .. }), "{error}");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| InstanceLock::take_within(&path, Duration::from_secs(60)));
            drop(first);
            let second = waits.join().unwrap().unwrap();
            let third = InstanceLock::take(&path);
            assert!(matches!(third, Err(LockError::Held { .. })), "{third:?}");
            drop(second);
        });
    }
}
