//! A Unix socket that a daemon listens at, and its file.

use std::fs::{Permissions, remove_file, set_permissions, symlink_metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// A Unix socket that this daemon listens at. Its file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl UnixSocket {
    /// Listens at `path`, whose file gets these permissions. A socket that nobody listens at any more is replaced. Needs a
    /// running runtime.
    ///
    /// # Errors
    /// `AddrInUse` when another program listens there, `AlreadyExists` when the file is not a socket; otherwise when the
    /// socket cannot be made.
    pub(crate) fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        if is_left_behind(path)? {
            remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        set_permissions(path, Permissions::from_mode(mode))?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// Returns the next connection.
    ///
    /// # Cancel safety
    /// No connection is lost when the future is dropped.
    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.listener.accept().await?;
        Ok(stream)
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // A file that is gone already is as good.
        let _ = remove_file(&self.path);
    }
}

/// Whether the file of a socket that nobody listens at is there.
///
/// # Errors
/// As [`UnixSocket::bind`].
pub(crate) fn is_left_behind(path: &Path) -> io::Result<bool> {
    match symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "there is a file, which is not a socket",
            ));
        }
        Ok(_) => {}
    }
    match BlockingStream::connect(path) {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(_) => Ok(true),
    }
}
