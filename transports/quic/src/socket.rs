//! UDP sockets, and what the system tells about peers that cannot be reached.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};
use tokio::io::Interest;

/// Opens a socket on `address` with buffers of `buffer` bytes.
///
/// # Errors
/// The system's: in use, not an address of this machine.
pub(crate) fn open(address: SocketAddr, buffer: usize, only_v6: bool) -> io::Result<UdpSocket> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, only_v6)?;
    }
    // Past the system's bound where we may, and as far as it lets us where not.
    if sockopt::set_socket_recv_buffer_size_force(&socket, buffer).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, buffer)?;
    }
    if sockopt::set_socket_send_buffer_size_force(&socket, buffer).is_err() {
        sockopt::set_socket_send_buffer_size(&socket, buffer)?;
    }
    bind(&socket, &address)?;
    Ok(socket.into())
}

/// Returns any port of any address, of the family of `peer`.
pub(crate) fn anywhere(peer: SocketAddr) -> SocketAddr {
    let ip = match peer {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(ip, 0)
}

/// Listens to what the system hears about a peer that cannot be reached (ICMP).
///
/// A socket that is not connected is told of it only when it asks, and ours is not connected, so that
/// it survives a change of address. It asks no longer than the handshake takes: afterwards anybody who
/// can guess ports could end a link with a forged packet.
#[derive(Debug)]
pub(crate) struct Icmp(tokio::net::UdpSocket);

impl Icmp {
    /// Asks on `socket`, which goes to `peer`.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn ask(socket: &UdpSocket, peer: SocketAddr) -> io::Result<Self> {
        let icmp = Self(tokio::net::UdpSocket::from_std(socket.try_clone()?)?);
        icmp.set(peer, true)?;
        Ok(icmp)
    }

    /// Asks no more.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn stop(self, peer: SocketAddr) -> io::Result<()> {
        self.set(peer, false)
    }

    #[cfg(target_os = "linux")]
    fn set(&self, peer: SocketAddr, on: bool) -> io::Result<()> {
        use nix::sys::socket::{setsockopt, sockopt};
        match peer {
            SocketAddr::V4(_) => setsockopt(&self.0, sockopt::Ipv4RecvErr, &on)?,
            SocketAddr::V6(_) => setsockopt(&self.0, sockopt::Ipv6RecvErr, &on)?,
        }
        Ok(())
    }

    /// Elsewhere a handshake that nobody answers takes until its deadline.
    #[cfg(not(target_os = "linux"))]
    fn set(&self, _peer: SocketAddr, _on: bool) -> io::Result<()> {
        Ok(())
    }

    /// Resolves when nobody listens there, or there is no way to it, and never otherwise.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn refused(&self) -> io::Error {
        use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, WouldBlock};
        let look = || match self.0.take_error()? {
            Some(error) => Ok(error),
            None => Err(WouldBlock.into()),
        };
        loop {
            match self.0.async_io(Interest::ERROR, look).await {
                Ok(error)
                    if matches!(
                        error.kind(),
                        ConnectionRefused | HostUnreachable | NetworkUnreachable
                    ) =>
                {
                    return error;
                }
                Ok(_) => {}
                // Whoever cannot ask hears nothing; the deadline of the handshake stands.
                Err(_) => std::future::pending().await,
            }
        }
    }
}
