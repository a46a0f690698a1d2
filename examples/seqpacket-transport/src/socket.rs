//! Sockets of packets. Neither the standard library nor Tokio makes them; once there is one, Tokio's
//! types for Unix sockets wait for it as for any other, and only reading and writing are ours.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net;
use std::path::Path;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use tokio::net::{UnixListener, UnixStream};

/// Connections that wait to be accepted. The system lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let made = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    Ok(made?)
}

/// Binds `path`.
///
/// # Errors
/// The system's.
pub(crate) fn bind(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket()?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Listens with a socket that is bound. Has to be called inside a Tokio runtime.
///
/// # Errors
/// The system's.
pub(crate) fn listen(socket: OwnedFd) -> io::Result<UnixListener> {
    rustix::net::listen(&socket, BACKLOG)?;
    UnixListener::from_std(net::UnixListener::from(socket))
}

/// Connects to `path`, which never waits. Has to be called inside a Tokio runtime.
///
/// # Errors
/// The system's; `WouldBlock` when too many wait to be accepted there.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = socket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    UnixStream::from_std(net::UnixStream::from(socket))
}
