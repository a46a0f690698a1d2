//! Binding and accepting.

use std::io;
use std::net::SocketAddr;

use saline_engine::net::{UnixSocketFile, bind_tcp, claim_path};
use saline_engine::{Incoming, Listener};
use saline_protocol::transport::{Address, Clock, Context, Endpoint, Result, Source};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixSocket, UnixStream};

use crate::options::{backlog, nodelay};
use crate::pipe::TcpPipe;
use crate::tls::Acceptor;

/// A socket that listens. Dropping it frees its port or its path.
#[derive(Debug)]
pub enum TcpTransportListener {
    Tcp {
        listener: TcpListener,
        nodelay: bool,
        /// Where connections are encrypted.
        acceptor: Option<Acceptor>,
        clock: Clock,
    },
    Unix {
        listener: UnixListener,
        file: UnixSocketFile,
    },
}

/// Binds all of `endpoint` or nothing. Returns the listeners and what was bound, port 0 replaced.
///
/// # Errors
/// `Refused` when something is in use or the system says no, `Config` when a path cannot be a socket's.
///
/// # Cancel safety
/// Nothing stays bound when the future is dropped.
pub(crate) async fn bind(
    endpoint: &Endpoint,
    acceptor: Option<Acceptor>,
    context: &Context,
) -> Result<(Vec<TcpTransportListener>, Endpoint)> {
    let backlog = backlog(&endpoint.options);
    if let Address::Local(path) = &endpoint.address {
        let connect = async |path: &std::path::Path| UnixStream::connect(path).await.map(drop);
        let bind = |path: &std::path::Path| {
            let socket = UnixSocket::new_stream()?;
            socket.bind(path)?;
            Ok(socket)
        };
        let listen = |socket: UnixSocket| socket.listen(backlog);
        let (listener, file) =
            claim_path(path, context.local_access, connect, bind, listen).await?;
        let listener = TcpTransportListener::Unix { listener, file };
        return Ok((vec![listener], endpoint.clone()));
    }
    let (listeners, bound) = bind_tcp(endpoint, backlog).await?;
    let listeners = listeners
        .into_iter()
        .map(|listener| TcpTransportListener::Tcp {
            listener,
            nodelay: nodelay(&endpoint.options),
            acceptor: acceptor.clone(),
            clock: context.clock,
        });
    Ok((listeners.collect(), bound))
}

impl Listener for TcpTransportListener {
    type Incoming = Accepted;

    async fn accept(&mut self) -> io::Result<Accepted> {
        match self {
            Self::Tcp {
                listener,
                nodelay,
                acceptor,
                clock,
            } => {
                let (stream, address) = listener.accept().await?;
                stream.set_nodelay(*nodelay)?;
                Ok(Accepted::Tcp {
                    stream,
                    address,
                    acceptor: acceptor.clone(),
                    clock: *clock,
                })
            }
            Self::Unix { listener, file } => {
                let (stream, _) = listener.accept().await?;
                let uid = stream.peer_cred()?.uid();
                file.check_peer(uid)?;
                Ok(Accepted::Unix { stream, uid })
            }
        }
    }
}

/// A connection that was accepted.
#[derive(Debug)]
pub enum Accepted {
    Tcp {
        stream: TcpStream,
        address: SocketAddr,
        acceptor: Option<Acceptor>,
        clock: Clock,
    },
    Unix {
        stream: UnixStream,
        uid: u32,
    },
}

impl Incoming for Accepted {
    type Pipe = TcpPipe;

    fn source(&self) -> Source {
        match self {
            Self::Tcp { address, .. } => Source::of(*address),
            Self::Unix { uid, .. } => Source::User(*uid),
        }
    }

    fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { address, .. } => Some(*address),
            Self::Unix { .. } => None,
        }
    }

    async fn establish(self) -> io::Result<TcpPipe> {
        match self {
            Self::Tcp {
                stream,
                acceptor: Some(acceptor),
                clock,
                ..
            } => acceptor.accept(clock, stream).await,
            Self::Tcp { stream, .. } => Ok(TcpPipe::tcp(stream)),
            Self::Unix { stream, .. } => Ok(TcpPipe::unix(stream)),
        }
    }
}
