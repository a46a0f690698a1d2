//! Raw sockets under an endpoint, whatever kind they are of.

mod packets;
mod pipes;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use saline_protocol::transport::{self, Address, Clock, Endpoint, HostPort};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

pub use packets::{PACKET, PacketListener, Packets};
pub use pipes::RawTransport;
pub(crate) use pipes::{RawConnections, RawPipe, RawPipes};

use super::World;
use crate::{Expecting, Outcome, UnixSocket, Wire};

/// Bytes that wait at a socket which keeps little: some times what the loopback sends at once, so that a full one costs no time-out of TCP.
const LITTLE: usize = 256 * 1024;

/// Where a raw socket connects to.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// An address, over TCP or UDP.
    Address(SocketAddr),
    /// A socket in the file system.
    Path(PathBuf, UnixSocket),
    /// An endpoint of the transport, inside of its connections.
    Pipe(Box<PipePlace>),
}

/// Where a raw connection of the transport's own kind goes.
#[derive(Clone)]
pub(crate) struct PipePlace {
    connections: Arc<dyn RawConnections>,
    endpoint: Endpoint,
    context: transport::Context,
}

impl PipePlace {
    /// The place of `endpoint`; what its connections need of a context is of this one.
    pub fn new(
        connections: Arc<dyn RawConnections>,
        endpoint: Endpoint,
        context: transport::Context,
    ) -> Self {
        Self {
            connections,
            endpoint,
            context,
        }
    }

    /// Listens there. Returns what was bound, too.
    async fn listen(&self) -> io::Result<(RawPipes, Self)> {
        let listening = self.connections.listen(&self.endpoint, &self.context);
        let (pipes, endpoint) = listening.await?;
        let bound = Self {
            endpoint,
            ..self.clone()
        };
        Ok((pipes, bound))
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl fmt::Debug for PipePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PipePlace({})", self.endpoint)
    }
}

impl Place {
    /// The place of `endpoint`, which was bound and has `wire` under it.
    pub fn of(endpoint: &Endpoint, wire: Option<Wire>) -> Outcome<Self> {
        match (&endpoint.address, wire) {
            (Address::Local(path), Some(Wire::UnixPath(kind))) => {
                Ok(Self::Path(path.clone(), kind))
            }
            _ => address(endpoint).map(Self::Address),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Path(path, _) => path.display().fmt(f),
            Self::Pipe(place) => place.endpoint.fmt(f),
        }
    }
}

/// The first socket address of `endpoint`, which was bound.
pub(crate) fn address(endpoint: &Endpoint) -> Outcome<SocketAddr> {
    let first = match &endpoint.address {
        Address::Network { addresses, .. } => addresses.first(),
        Address::Local(_) => None,
    };
    first
        .and_then(HostPort::as_socket_address)
        .expecting("the socket address of what was bound")
}

/// A connection of the suite's own.
#[derive(Debug)]
pub(crate) enum Raw {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket of bytes.
    Unix(UnixStream),
    /// A Unix socket of packets.
    Packets(Packets),
    /// A connection of the transport's own kind.
    Pipe(RawPipe),
}

impl Raw {
    /// Connects to `place`.
    pub async fn connect(place: &Place) -> io::Result<Self> {
        loop {
            let connected = match place {
                Place::Address(address) => TcpStream::connect(address).await.map(Self::Tcp),
                Place::Path(path, UnixSocket::Stream) => {
                    UnixStream::connect(path).await.map(Self::Unix)
                }
                Place::Path(path, UnixSocket::SeqPacket) => {
                    Packets::connect(path).map(Self::Packets)
                }
                Place::Pipe(place) => {
                    let dialling = place.connections.dial(&place.endpoint, &place.context);
                    dialling.await.map(Self::Pipe)
                }
            };
            match connected {
                // A Unix socket whose backlog is full says so instead of waiting.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    Clock.pause(Duration::from_millis(1)).await;
                }
                connected => return connected,
            }
        }
    }

    /// Makes the system send each write at once instead of collecting small ones.
    pub fn at_once(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true),
            Self::Unix(_) | Self::Packets(_) | Self::Pipe(_) => Ok(()),
        }
    }

    /// Dropping it is a reset, where the wire has one.
    pub fn reset_at_the_end(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_zero_linger()?,
            Self::Unix(_) | Self::Packets(_) => {}
            Self::Pipe(pipe) => pipe.abort_at_the_end(),
        }
        Ok(())
    }

    /// Makes the system keep little of what arrives and is not read, so that a sender soon waits.
    pub fn keep_little(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => Ok(set_socket_recv_buffer_size(stream, LITTLE)?),
            Self::Unix(_) | Self::Packets(_) | Self::Pipe(_) => Ok(()),
        }
    }

    /// Whether what is written arrives in the pieces in which it was written.
    pub fn keeps_boundaries(&self) -> bool {
        matches!(self, Self::Packets(_))
    }
}

impl AsyncRead for Raw {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Packets(packets) => Pin::new(packets).poll_read(cx, into),
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Raw {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Packets(packets) => Pin::new(packets).poll_write(cx, bytes),
            Self::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_flush(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Packets(packets) => Pin::new(packets).poll_shutdown(cx),
            Self::Pipe(pipe) => Pin::new(pipe).poll_shutdown(cx),
        }
    }
}

/// A listener of the suite's own.
#[derive(Debug)]
pub(crate) enum RawListener {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket of bytes.
    Unix(UnixListener),
    /// A Unix socket of packets.
    Packets(PacketListener),
    /// A listener of the transport's own kind.
    Pipes(RawPipes),
}

impl RawListener {
    /// Listens where nothing else does, for what is served at `like`.
    pub async fn bind(like: &Place, world: &World) -> io::Result<(Self, Place)> {
        Ok(match like {
            Place::Address(_) => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
                // Those that are accepted keep as much.
                set_socket_recv_buffer_size(&listener, LITTLE)?;
                let at = Place::Address(listener.local_addr()?);
                (Self::Tcp(listener), at)
            }
            Place::Pipe(server) => {
                let mut fresh = server.clone();
                fresh.endpoint = world.fresh().requests;
                let (pipes, bound) = fresh.listen().await?;
                (Self::Pipes(pipes), Place::Pipe(Box::new(bound)))
            }
            Place::Path(_, kind) => {
                let path = world.path("front");
                (Self::at_path(&path, *kind)?, Place::Path(path, *kind))
            }
        })
    }

    /// Listens at `path`.
    pub fn at_path(path: &Path, kind: UnixSocket) -> io::Result<Self> {
        Ok(match kind {
            UnixSocket::Stream => Self::Unix(UnixListener::bind(path)?),
            UnixSocket::SeqPacket => Self::Packets(PacketListener::bind(path)?),
        })
    }

    /// The next connection.
    pub async fn accept(&self) -> io::Result<Raw> {
        Ok(match self {
            Self::Tcp(listener) => Raw::Tcp(listener.accept().await?.0),
            Self::Unix(listener) => Raw::Unix(listener.accept().await?.0),
            Self::Packets(listener) => Raw::Packets(listener.accept().await?),
            Self::Pipes(pipes) => Raw::Pipe(pipes.accept().await?),
        })
    }
}

/// A socket for `place`, which is no pipe, that is not connected yet: its descriptor is there already.
pub(crate) fn unconnected(place: &Place) -> io::Result<OwnedFd> {
    let (family, kind) = match place {
        Place::Pipe(_) => return Err(io::ErrorKind::Unsupported.into()),
        Place::Address(address) if address.is_ipv6() => (AddressFamily::INET6, SocketType::STREAM),
        Place::Address(_) => (AddressFamily::INET, SocketType::STREAM),
        Place::Path(_, UnixSocket::SeqPacket) => (AddressFamily::UNIX, SocketType::SEQPACKET),
        Place::Path(..) => (AddressFamily::UNIX, SocketType::STREAM),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(family, kind, flags, None)?)
}

/// Begins to connect it, without waiting.
pub(crate) fn connect_at_once(socket: &OwnedFd, place: &Place) -> io::Result<()> {
    match place {
        Place::Address(address) => connect(socket, address)?,
        Place::Path(path, _) => connect(socket, &SocketAddrUnix::new(path)?)?,
        Place::Pipe(_) => return Err(io::ErrorKind::Unsupported.into()),
    }
    Ok(())
}
