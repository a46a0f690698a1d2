//! Binds sockets to the addresses of an endpoint.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use saline_engine::net::{UnixSocketFile, claim_path};
use saline_protocol::transport::{
    Address, Endpoint, Error, ErrorKind, HostPort, LocalAccess, Result,
};

use crate::connection::addresses;
use crate::options::backlog;
use crate::socket::Socket;

/// Returns the error of a socket whose options cannot be set.
pub(crate) fn set_up_failed(error: impl Into<io::Error>) -> Error {
    Error::new(ErrorKind::Refused, "cannot set up a ZeroMQ socket").with_source(error.into())
}

/// Binds `socket` to every address of `endpoint`. Returns the endpoint with the ports that the
/// system chose, and the file of a local one.
pub(crate) async fn bind(
    socket: &mut Socket,
    endpoint: &Endpoint,
) -> Result<(Endpoint, Option<UnixSocketFile>)> {
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
    for address in addresses(endpoint).await? {
        if let Address::Local(path) = &endpoint.address {
            let (listener, socket_file) = listen_at(path, backlog(&endpoint.options)).await?;
            file = Some(socket_file);
            let at = socket.bind_to(listener, &address.endpoint);
            bound.push(at.map_err(refused)?);
            continue;
        }
        socket
            .options()
            .set_ipv6(address.ipv6)
            .map_err(set_up_failed)?;
        bound.push(socket.bind(&address.endpoint).map_err(refused)?);
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

/// Returns a listening socket at `path` that only the process's own user can connect to, whatever the
/// umask is. libzmq would give it the mode that the umask leaves, and listen at once.
async fn listen_at(path: &Path, backlog: i32) -> Result<(OwnedFd, UnixSocketFile)> {
    let connect = async |path: &Path| tokio::net::UnixStream::connect(path).await.map(drop);
    let bind = |path: &Path| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(socket)
    };
    let listen = |socket: OwnedFd| {
        net::listen(&socket, backlog)?;
        Ok(socket)
    };
    claim_path(path, LocalAccess::OwnUser, connect, bind, listen).await
}
