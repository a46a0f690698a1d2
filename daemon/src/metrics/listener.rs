//! The address at which metrics are asked for.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener as BlockingListener};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use saline_config::MetricsAddress;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use crate::health;
use crate::unix_socket::{UnixSocket, is_left_behind};

/// The permissions of the socket: for the daemon's user and group.
const MODE: u32 = 0o660;

/// The error when metrics cannot be served at an address.
#[derive(Debug, thiserror::Error)]
#[error("metrics_listen: cannot listen on {at}: {source}{hint}")]
pub struct MetricsListenError {
    at: MetricsAddress,
    hint: &'static str,
    source: io::Error,
}

impl MetricsListenError {
    fn new(at: &MetricsAddress, source: io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::AddrInUse => "; another program listens there: choose another address",
            io::ErrorKind::AddrNotAvailable => "; it must be an address of this machine",
            io::ErrorKind::NotFound => "; its folder does not exist: create it",
            io::ErrorKind::AlreadyExists => ": choose another path",
            io::ErrorKind::PermissionDenied => {
                "; the daemon's user may not do that: choose a port above 1023, or a folder of that user"
            }
            _ => "",
        };
        Self {
            at: at.clone(),
            hint,
            source,
        }
    }
}

/// A socket at which metrics are asked for.
#[derive(Debug)]
pub(super) enum MetricsListener {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixSocket, PathBuf),
}

/// A connection over which somebody asks.
pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl MetricsListener {
    /// Listens at this address. Needs a running runtime.
    pub(super) fn bind(at: &MetricsAddress) -> Result<Self, MetricsListenError> {
        let bound = match at {
            MetricsAddress::Network(address) => bind_tcp(*address),
            MetricsAddress::Local(path) => {
                UnixSocket::bind(path, MODE).map(|socket| Self::Unix(socket, path.clone()))
            }
        };
        bound.map_err(|source| MetricsListenError::new(at, source))
    }

    /// Returns the next connection.
    ///
    /// # Cancel safety
    /// No connection is lost when the future is dropped.
    pub(super) async fn accept(&self) -> io::Result<Box<dyn Connection>> {
        Ok(match self {
            Self::Tcp(listener, _) => Box::new(listener.accept().await?.0),
            Self::Unix(socket, _) => Box::new(socket.accept().await?),
        })
    }
}

/// The address that is bound, with the port that the system chose.
impl fmt::Display for MetricsListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(_, address) => write!(f, "http://{address}/metrics"),
            Self::Unix(_, path) => write!(f, "/metrics on {}", path.display()),
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<MetricsListener> {
    let listener = BlockingListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    Ok(MetricsListener::Tcp(
        TcpListener::from_std(listener)?,
        bound,
    ))
}

/// Checks that metrics can be served at this address by a daemon with this `sock_dir`, and leaves nothing there. An address in
/// use is no error while the daemon runs, which most likely listens there.
///
/// # Errors
/// One line about what is in the way.
pub fn check_metrics_address(
    at: Option<&MetricsAddress>,
    sock_dir: &Path,
) -> Result<(), MetricsListenError> {
    let Some(at) = at else {
        return Ok(());
    };
    let checked = match at {
        MetricsAddress::Network(address) => BlockingListener::bind(address).map(drop),
        MetricsAddress::Local(path) => is_left_behind(path).and_then(|_| {
            let folder = path.parent().unwrap_or(path);
            Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
        }),
    };
    match checked {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && health::is_served(sock_dir) => {
            Ok(())
        }
        checked => checked.map_err(|source| MetricsListenError::new(at, source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_names_what_is_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let check = |at: &str| {
            let at: MetricsAddress = at.parse().unwrap();
            let checked = check_metrics_address(Some(&at), folder.path());
            checked.map_err(|error| error.to_string())
        };
        let taken = BlockingListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let line = check(&address.to_string()).unwrap_err();
        assert!(
            line.starts_with(&format!("metrics_listen: cannot listen on {address}: ")),
            "{line}"
        );
        assert!(line.ends_with("choose another address"), "{line}");
        // A daemon runs with this configuration already.
        let health = std::os::unix::net::UnixListener::bind(folder.path().join("health.ipc"));
        check(&address.to_string()).unwrap();
        drop(health);
        drop(taken);
        check(&address.to_string()).unwrap();

        let path = |name: &str| folder.path().join(name).display().to_string();
        check(&path("new.sock")).unwrap();
        assert!(!folder.path().join("new.sock").exists());
        let line = check(&path("absent/new.sock")).unwrap_err();
        assert!(
            line.ends_with("its folder does not exist: create it"),
            "{line}"
        );
        std::fs::write(folder.path().join("file"), "mine").unwrap();
        let line = check(&path("file")).unwrap_err();
        assert!(
            line.contains("is not a socket: choose another path"),
            "{line}"
        );
        assert_eq!(std::fs::read(folder.path().join("file")).unwrap(), b"mine");
    }
}
