//! The bytes underneath: a TCP or a Unix socket, or TLS over TCP, as one type.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use saline_protocol::transport::{Address, Endpoint, Error, ErrorKind, HostPort, Result};
use tokio::io::{self as io_half, AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream, tcp, unix};
use tokio_rustls::TlsStream;

use crate::local::{self, LocalListener};
use crate::options::{backlog, nodelay};

/// How often a free port is looked for that several addresses of one name can share.
const TRIES: usize = 16;

/// Where an endpoint is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Network {
        at: SocketAddr,
        /// What it was asked for as: the name that a certificate is held against.
        host: String,
    },
    Local(std::path::PathBuf),
}

/// The places of `endpoint`, in its order; names are resolved each time.
///
/// # Errors
/// `Config` when a path cannot be a socket's, `Unreachable` when no name resolves.
pub(crate) async fn places(endpoint: &Endpoint) -> Result<Vec<Place>> {
    let addresses = match &endpoint.address {
        Address::Local(path) => {
            local::check_path(path)?;
            return Ok(vec![Place::Local(path.clone())]);
        }
        Address::Network { addresses, .. } => addresses,
    };
    let mut places = Vec::with_capacity(addresses.len());
    let mut failed = None;
    for address in addresses {
        match resolve(address).await {
            Ok(found) => places.extend(found.into_iter().map(|at| Place::Network {
                at,
                host: address.host.clone(),
            })),
            Err(error) => failed = Some((address, error)),
        }
    }
    match failed {
        Some((address, error)) if places.is_empty() => Err(Error::new(
            ErrorKind::Unreachable,
            format!("cannot resolve {address}"),
        )
        .with_source(error)),
        _ => Ok(places),
    }
}

async fn resolve(address: &HostPort) -> io::Result<Vec<SocketAddr>> {
    let found = tokio::net::lookup_host((address.host.as_str(), address.port)).await?;
    let mut all = Vec::new();
    // A hosts file may name an address twice.
    for one in found {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    Ok(all)
}

/// A connection of which nothing was said yet.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects to `place`.
    pub(crate) async fn connect(place: &Place, endpoint: &Endpoint) -> io::Result<Self> {
        match place {
            Place::Network { at, .. } => {
                let stream = TcpStream::connect(at).await?;
                stream.set_nodelay(nodelay(&endpoint.options))?;
                Ok(Self::Tcp(stream))
            }
            Place::Local(path) => Ok(Self::Unix(UnixStream::connect(path).await?)),
        }
    }

    /// As it is, without TLS.
    pub(crate) fn clear(self) -> Stream {
        match self {
            Self::Tcp(stream) => {
                let (read, write) = stream.into_split();
                Stream {
                    read: ReadHalf::Tcp(read),
                    write: WriteHalf::Tcp(write),
                }
            }
            Self::Unix(stream) => {
                let (read, write) = stream.into_split();
                Stream {
                    read: ReadHalf::Unix(read),
                    write: WriteHalf::Unix(write),
                }
            }
        }
    }
}

/// A connected stream, in two halves that progress independently.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) read: ReadHalf,
    pub(crate) write: WriteHalf,
}

impl Stream {
    /// The halves share a lock that is held while one of them is polled, never while it waits. What
    /// was written may stay in TLS until it is flushed.
    pub(crate) fn tls(stream: TlsStream<TcpStream>) -> Self {
        let (read, write) = io_half::split(stream);
        Self {
            read: ReadHalf::Tls(read),
            write: WriteHalf::Tls(write),
        }
    }
}

#[derive(Debug)]
pub(crate) enum ReadHalf {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
    Tls(io_half::ReadHalf<TlsStream<TcpStream>>),
}

#[derive(Debug)]
pub(crate) enum WriteHalf {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
    Tls(io_half::WriteHalf<TlsStream<TcpStream>>),
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// A socket that listens. Dropping it frees its port or its path.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp {
        listener: TcpListener,
        nodelay: bool,
    },
    Local(LocalListener),
}

impl Listener {
    /// The next connection, and its address where it has one.
    ///
    /// # Errors
    /// What the system says; `PermissionDenied` for a peer that may not connect.
    ///
    /// # Cancel safety
    /// No connection is lost when the future is dropped.
    pub(crate) async fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        match self {
            Self::Tcp { listener, nodelay } => {
                let (stream, address) = listener.accept().await?;
                stream.set_nodelay(*nodelay)?;
                Ok((Socket::Tcp(stream), Some(address)))
            }
            Self::Local(listener) => Ok((Socket::Unix(listener.accept().await?), None)),
        }
    }
}

/// Binds all of `endpoint` or nothing. Returns what was bound, port 0 replaced.
///
/// # Errors
/// `Refused` when something is in use or the system says no, `Config` when a path cannot be a socket's.
pub(crate) async fn bind(endpoint: &Endpoint) -> Result<(Vec<Listener>, Endpoint)> {
    let mut bound = endpoint.clone();
    let addresses = match &mut bound.address {
        Address::Local(path) => {
            let listener = LocalListener::bind(path, backlog(&endpoint.options)).await?;
            return Ok((vec![Listener::Local(listener)], bound));
        }
        Address::Network { addresses, .. } => addresses,
    };
    let mut listeners = Vec::new();
    for address in addresses {
        let refused = |error: io::Error| {
            Error::new(
                ErrorKind::Refused,
                format!("cannot listen on {address} of {endpoint}: {error}"),
            )
            .with_source(error)
        };
        let found = resolve(address).await.map_err(refused)?;
        let (some, port) = bind_all(&found, endpoint).map_err(refused)?;
        listeners.extend(some);
        address.port = port;
    }
    if listeners.is_empty() {
        return Err(Error::new(
            ErrorKind::Config,
            format!("{endpoint}: no address to listen on"),
        ));
    }
    Ok((listeners, bound))
}

/// Listens on all addresses of one name, on one port.
fn bind_all(found: &[SocketAddr], endpoint: &Endpoint) -> io::Result<(Vec<Listener>, u16)> {
    let mut tries = 0;
    'again: loop {
        tries += 1;
        let mut port = 0;
        let mut listeners = Vec::with_capacity(found.len());
        for address in found {
            let mut at = *address;
            if at.port() == 0 {
                at.set_port(port);
            }
            let listener = match listen(at, backlog(&endpoint.options)) {
                Ok(listener) => listener,
                // The port that was free on the first address is not on this one.
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse
                        && address.port() == 0
                        && port != 0
                        && tries < TRIES =>
                {
                    continue 'again;
                }
                Err(error) => return Err(error),
            };
            port = listener.local_addr()?.port();
            listeners.push(Listener::Tcp {
                listener,
                nodelay: nodelay(&endpoint.options),
            });
        }
        return Ok((listeners, port));
    }
}

fn listen(at: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // The port is free as soon as we are gone, whatever of our connections the system still holds.
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(backlog)
}
