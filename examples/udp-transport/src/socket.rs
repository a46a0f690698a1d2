//! Opening UDP sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};
use tokio::net::UdpSocket;

/// What the system holds of datagrams in each direction, as far as it lets us: a server has one socket for all of its peers.
const BUFFER: usize = 4 * 1024 * 1024;

/// Opens a socket on `address`. Has to be called inside a Tokio runtime.
///
/// # Errors
/// The system's: in use, not an address of this machine.
pub(crate) fn open(address: SocketAddr, only_v6: bool) -> io::Result<UdpSocket> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, only_v6)?;
    }
    sockopt::set_socket_recv_buffer_size(&socket, BUFFER)?;
    sockopt::set_socket_send_buffer_size(&socket, BUFFER)?;
    bind(&socket, &address)?;
    UdpSocket::from_std(socket.into())
}

/// Returns any port of any address, of the family of `peer`.
pub(crate) fn anywhere(peer: SocketAddr) -> SocketAddr {
    let ip = match peer {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(ip, 0)
}
