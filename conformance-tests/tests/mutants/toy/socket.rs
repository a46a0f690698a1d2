//! Sockets: TCP, and Unix sockets of either kind.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use saline_conformance::UnixSocket;
use saline_conformance::kit::{PacketListener, Packets};
use saline_protocol::transport::{
    Address, Context, Endpoint, Error, ErrorKind, HostPort, LocalAccess, Result,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::datagrams::{self, UdpListener};
use crate::wire_fault::WireFault;

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// What is wrong, and what is at a path.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub fault: WireFault,
    pub socket: UnixSocket,
    /// Whether its network endpoints are over UDP.
    pub datagrams: bool,
}

pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
    Packets(PacketListener),
    Udp(UdpListener),
}

impl Listener {
    pub async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Self::Unix(listener) => Box::new(listener.accept().await?.0),
            Self::Packets(listener) => Box::new(listener.accept().await?),
            Self::Udp(listener) => Box::new(listener.accept().await?),
        })
    }
}

/// What was bound, with the file that belongs to it.
pub struct Bound {
    pub listener: Listener,
    pub at: Endpoint,
    pub file: Option<File>,
}

/// The file of a socket: its path and its number.
#[derive(Debug, Clone)]
pub struct File(PathBuf, u64);

impl File {
    /// Removes it, unless it is another by now.
    pub fn remove(&self, fault: WireFault) {
        let own = std::fs::symlink_metadata(&self.0).is_ok_and(|found| found.ino() == self.1);
        if fault != WireFault::LeaveSocket && (own || fault == WireFault::RemoveForeign) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

fn refused(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Refused, format!("cannot listen: {error}"))
}

pub async fn bind(at: &Endpoint, kind: Kind, context: &Context) -> Result<Bound> {
    let mut at = at.clone();
    if let Some(path) = path(&at, kind.fault) {
        let found = std::fs::symlink_metadata(&path);
        let replace = match kind.fault {
            WireFault::AlwaysUnlink => found.is_ok(),
            WireFault::NeverUnlink => false,
            // Only a socket to which nobody listens refuses; a file is no socket.
            _ => {
                found.is_ok_and(|found| found.file_type().is_socket())
                    && connect(&path, kind.socket)
                        .await
                        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
            }
        };
        if replace {
            std::fs::remove_file(&path).map_err(refused)?;
        }
        let listener = match kind.socket {
            UnixSocket::SeqPacket => {
                Listener::Packets(PacketListener::bind(&path).map_err(refused)?)
            }
            _ => Listener::Unix(UnixListener::bind(&path).map_err(refused)?),
        };
        let mode = match context.local_access {
            LocalAccess::EveryUser if kind.fault != WireFault::KeepOut => 0o666,
            LocalAccess::EveryUser | LocalAccess::OwnUser => 0o600,
        };
        let mode = PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&path, mode).map_err(refused)?;
        let number = std::fs::symlink_metadata(&path).map_err(refused)?.ino();
        return Ok(Bound {
            listener,
            at,
            file: Some(File(path, number)),
        });
    }
    let Address::Network { addresses, .. } = &mut at.address else {
        return Err(refused("no address"));
    };
    let first = (addresses[0].host.as_str(), addresses[0].port);
    let (listener, local) = if kind.datagrams {
        let listener = UdpListener::bind(first, context, kind.fault).await;
        let listener = listener.map_err(refused)?;
        let local = listener.at;
        (Listener::Udp(listener), local)
    } else {
        let listener = TcpListener::bind(first).await.map_err(refused)?;
        let local = listener.local_addr().map_err(refused)?;
        (Listener::Tcp(listener), local)
    };
    addresses[0] = HostPort::new(addresses[0].host.clone(), local.port());
    Ok(Bound {
        listener,
        at,
        file: None,
    })
}

/// Where an endpoint's socket is.
fn path(endpoint: &Endpoint, fault: WireFault) -> Option<PathBuf> {
    let Address::Local(path) = &endpoint.address else {
        return None;
    };
    if fault != WireFault::CutPath {
        return Some(path.clone());
    }
    let text = path.to_str().unwrap();
    let cut = Path::new(&text[..text.len().min(100)]).to_owned();
    // What is cut off may end in a slash or name the folder itself.
    Some(match cut.is_dir() || text.len() > 100 {
        true => PathBuf::from(format!("{}-cut", &text[..text.len().min(80)])),
        false => cut,
    })
}

async fn connect(path: &Path, kind: UnixSocket) -> io::Result<Box<dyn Stream>> {
    Ok(match kind {
        UnixSocket::SeqPacket => Box::new(Packets::connect(path)?),
        _ => Box::new(UnixStream::connect(path).await?),
    })
}

pub async fn dial(
    endpoint: &Endpoint,
    kind: Kind,
    context: &Context,
) -> io::Result<Box<dyn Stream>> {
    if let Some(path) = path(endpoint, kind.fault) {
        return connect(&path, kind.socket).await;
    }
    let mut last = io::ErrorKind::NotFound.into();
    if let Address::Network { addresses, .. } = &endpoint.address {
        for address in addresses {
            if kind.datagrams {
                let to = address.as_socket_address().ok_or(io::ErrorKind::NotFound)?;
                return Ok(Box::new(datagrams::dial(to, context).await?));
            }
            match TcpStream::connect((address.host.as_str(), address.port)).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Box::new(stream));
                }
                Err(error) => last = error,
            }
        }
    }
    Err(last)
}
