//! The files of Unix sockets: who may reach them, and what becomes of them.

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use saline_protocol::transport::{Clock, Error, ErrorKind, LocalAccess, Result};

/// How long a path may be at most: `sun_path` with its NUL.
const LONGEST_PATH: usize = 107;
/// For how long another process that binds in the same folder is waited for.
const BUSY: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Checks that a Unix socket can have this path.
///
/// # Errors
/// `Config` when it cannot.
pub fn check_path(path: &Path) -> Result<()> {
    let bytes = path.as_os_str().as_bytes();
    let why = if bytes.is_empty() || bytes.contains(&0) {
        "not a path of a socket".into()
    } else if bytes.len() > LONGEST_PATH {
        format!("{} bytes, the system allows {LONGEST_PATH}", bytes.len())
    } else {
        return Ok(());
    };
    Err(Error::new(
        ErrorKind::Config,
        format!("socket path {}: {why}", path.display()),
    ))
}

/// Binds a Unix socket of any type at `path`, for the users that `access` names, in a folder that nobody else can write to. Whatever a
/// dead process left there is replaced; a socket that somebody listens on, and a file that is no
/// socket, are left alone. `connect` tries to connect to the path, and tells by its error whether somebody
/// listens. `bind` makes the socket there, not listening yet; `listen` lets it listen.
///
/// # Errors
/// `Config` when the path cannot be a socket's; `Refused` when it is in use, or the folder is
/// not ours alone.
///
/// # Cancel safety
/// When the future is dropped, nothing stays bound.
pub async fn claim_path<S, L>(
    path: &Path,
    access: LocalAccess,
    connect: impl AsyncFnOnce(&Path) -> io::Result<()>,
    bind: impl FnOnce(&Path) -> io::Result<S>,
    listen: impl FnOnce(S) -> io::Result<L>,
) -> Result<(L, UnixSocketFile)> {
    check_path(path)?;
    let uid = rustix::process::geteuid().as_raw();
    let claimed = async {
        // Held until somebody listens, so that of two processes that start at once neither removes
        // the other's file.
        let _lock = lock_folder(path, uid).await?;
        remove_stale(path, connect).await?;
        let socket = bind(path)?;
        let file = UnixSocketFile::at(path, uid, access)?;
        let mode = match access {
            LocalAccess::OwnUser => 0o600,
            LocalAccess::EveryUser => 0o666,
        };
        // Before it listens, nobody can connect whatever the mode is.
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
        Ok((listen(socket)?, file))
    };
    claimed.await.map_err(|error: io::Error| {
        let why = format!("cannot listen on {}: {error}", path.display());
        Error::new(ErrorKind::Refused, why).with_source(error)
    })
}

/// Whether a process of user `peer` may talk to one of user `own`.
fn may_connect(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

/// Makes the folder of `path` where there is none, and locks it against others who bind in it.
async fn lock_folder(path: &Path, uid: u32) -> io::Result<File> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let handle = File::open(folder)?;
    let found = handle.metadata()?;
    // The socket itself has mode 0600: who cannot write here can neither connect nor replace it.
    if !(found.uid() == uid || found.uid() == 0) || found.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{} must be ours alone (mode 0700), not of user {} with mode {:o}",
                folder.display(),
                found.uid(),
                found.mode() & 0o7777
            ),
        ));
    }
    let until = Clock.after(BUSY);
    loop {
        match handle.try_lock() {
            Ok(()) => return Ok(handle),
            Err(TryLockError::WouldBlock) if Clock.now() < until => {
                Clock.pause(POLL_INTERVAL).await
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes the socket of a process that is gone.
async fn remove_stale(
    path: &Path,
    connect: impl AsyncFnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "something that is not a socket stands there",
            ));
        }
        Ok(_) => {}
    }
    match connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // A full backlog and a forbidden path are signs of life too.
        _ => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "somebody is listening there",
        )),
    }
}

/// The file of a Unix socket that this process bound. Dropping it removes the file, unless something
/// else stands at the path by then.
#[derive(Debug)]
pub struct UnixSocketFile {
    path: PathBuf,
    /// Device and inode: what stands at the path later may be somebody else's.
    id: (u64, u64),
    uid: u32,
    access: LocalAccess,
}

impl UnixSocketFile {
    fn at(path: &Path, uid: u32, access: LocalAccess) -> io::Result<Self> {
        let found = std::fs::symlink_metadata(path)?;
        Ok(Self {
            path: path.to_owned(),
            id: (found.dev(), found.ino()),
            uid,
            access,
        })
    }

    /// Checks that a process of user `peer` may connect: one of our own user's, or root's, unless everybody may.
    ///
    /// # Errors
    /// `PermissionDenied` when it may not.
    pub fn check_peer(&self, peer: u32) -> io::Result<()> {
        if self.access == LocalAccess::EveryUser || may_connect(peer, self.uid) {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "a process of user {peer} connected to {}",
                self.path.display()
            ),
        ))
    }
}

impl Drop for UnixSocketFile {
    fn drop(&mut self) {
        let is_ours = |found: std::fs::Metadata| (found.dev(), found.ino()) == self.id;
        if std::fs::symlink_metadata(&self.path).is_ok_and(is_ours)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::debug!(path = %self.path.display(), %error, "could not remove a socket");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_user_and_root_may_connect() {
        assert!(may_connect(1000, 1000));
        assert!(may_connect(0, 1000));
        assert!(!may_connect(1001, 1000));
        assert!(!may_connect(1000, 0));
    }

    /// A socket that is bound and does not listen looks like one that a dead process left behind.
    #[tokio::test]
    async fn the_folder_stays_locked_until_the_socket_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let is_locked = || File::open(folder.path()).unwrap().try_lock().is_err();
        let connect = async |_: &Path| unreachable!("there was no file");
        let bind = |path: &Path| File::create(path);
        let listen = |_: File| Ok(is_locked());
        let claimed = claim_path(&path, LocalAccess::OwnUser, connect, bind, listen).await;
        let (was_locked, file) = claimed.unwrap();
        assert!(was_locked, "while it began to listen");
        assert!(!is_locked(), "afterwards");
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_path_that_is_too_long_is_a_mistake_of_the_configuration() {
        let longest = format!("/{}", "x".repeat(LONGEST_PATH - 1));
        assert!(check_path(Path::new(&longest)).is_ok());
        for bad in [format!("{longest}x"), String::new(), "a\0b".into()] {
            let error = check_path(Path::new(&bad)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
        }
    }
}
