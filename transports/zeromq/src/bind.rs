//! Binding, and who may have a place.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use saline_protocol::transport::{Address, Endpoint, Error, ErrorKind, HostPort, Result};

use crate::connection::candidates;
use crate::options::backlog;
use crate::socket::Socket;

/// A socket that cannot have the options that it needs.
pub(crate) fn set_up_failed(error: impl Into<io::Error>) -> Error {
    Error::new(ErrorKind::Refused, "cannot set up a ZeroMQ socket").with_source(error.into())
}

/// Binds `socket` to every address of `endpoint`. Returns the endpoint with the ports that the
/// system chose, and the path that must be removed.
pub(crate) async fn bind(
    socket: &mut Socket,
    endpoint: &Endpoint,
) -> Result<(Endpoint, Option<BoundPath>)> {
    socket
        .options()
        .set_backlog(backlog(&endpoint.options))
        // Nobody answers for this domain, so that everybody is let in; but peers that speak ZMTP 1 or 2,
        // which cannot be asked, are not. Without a handshake, a stranger's bytes are messages at once.
        .and_then(|()| socket.options().set_zap_domain("saline"))
        .map_err(set_up_failed)?;
    let refused = |error: io::Error| {
        Error::new(
            ErrorKind::Refused,
            format!("cannot listen on {endpoint}: {error}"),
        )
        .with_source(error)
    };
    let mut bound = Vec::new();
    let mut file = None;
    for candidate in candidates(endpoint).await? {
        if let Address::Local(path) = &endpoint.address {
            refuse_a_living_socket(path, endpoint).await?;
            let backlog = backlog(&endpoint.options);
            let (listener, bound_path) = listen_alone(path, backlog).map_err(refused)?;
            file = bound_path;
            let at = socket.bind_to(listener, &candidate.endpoint);
            bound.push(at.map_err(refused)?);
            continue;
        }
        socket
            .options()
            .set_ipv6(candidate.ipv6)
            .map_err(set_up_failed)?;
        bound.push(socket.bind(&candidate.endpoint).map_err(refused)?);
    }
    let mut at = endpoint.clone();
    if let Address::Network { addresses, .. } = &mut at.address {
        // A name stays a name; several addresses of one name share its port only if it was given.
        if addresses.len() == bound.len() {
            for (address, bound) in addresses.iter_mut().zip(&bound) {
                if let Some(port) = bound.rsplit(':').next().and_then(|port| port.parse().ok()) {
                    *address = HostPort::new(address.host.clone(), port);
                }
            }
        } else if addresses.iter().any(|address| address.port == 0) {
            *addresses = bound
                .iter()
                .filter_map(|bound| bound.strip_prefix("tcp://")?.parse::<SocketAddr>().ok())
                .map(HostPort::from)
                .collect();
        }
    }
    Ok((at, file))
}

/// A socket at `path` that only our own user can connect to, whatever the umask is. libzmq would give
/// it the mode that the umask leaves, and listen at once.
fn listen_alone(path: &Path, backlog: i32) -> io::Result<(OwnedFd, Option<BoundPath>)> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let kind = rustix::net::SocketType::STREAM;
    let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(rustix::net::AddressFamily::UNIX, kind, flags, None)?;
    rustix::net::bind(&socket, &rustix::net::SocketAddrUnix::new(path)?)?;
    let bound = BoundPath::new(path);
    // Before it listens, nobody can connect whatever the mode is.
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
    rustix::net::listen(&socket, backlog)?;
    Ok((socket, bound))
}

/// The file of a Unix socket that we bound. libzmq leaves it behind when it closes.
#[derive(Debug)]
pub(crate) struct BoundPath {
    path: PathBuf,
    /// Device and inode: what stands at the path later may be somebody else's.
    file: (u64, u64),
}

impl BoundPath {
    fn new(path: &Path) -> Option<Self> {
        let file = file_at(path)?;
        let path = path.to_owned();
        Some(Self { path, file })
    }
}

impl Drop for BoundPath {
    fn drop(&mut self) {
        if file_at(&self.path) == Some(self.file)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::debug!(path = %self.path.display(), %error, "could not remove a socket");
        }
    }
}

fn file_at(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// What stands at a path is removed before it is bound. Somebody who still listens must not lose the
/// path; what a dead process left behind may go.
async fn refuse_a_living_socket(path: &Path, endpoint: &Endpoint) -> Result<()> {
    let refused = |why: &str| {
        Err(Error::new(
            ErrorKind::Refused,
            format!("cannot listen on {endpoint}: {why}"),
        ))
    };
    match std::fs::symlink_metadata(path) {
        Err(_) => return Ok(()),
        Ok(found) if !found.file_type().is_socket() => {
            return refused("something that is not a socket stands there");
        }
        Ok(_) => {}
    }
    match tokio::net::UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // A full backlog and a forbidden path are signs of life too.
        _ => refused("somebody is listening there"),
    }
}
