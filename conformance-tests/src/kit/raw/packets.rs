//! Unix sockets of packets (`SOCK_SEQPACKET`), which neither the standard library nor Tokio has: their
//! streams carry them, and reads and writes are the system's own.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, bind,
    connect, listen, recv, send, shutdown, socket_with,
};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{UnixListener, UnixStream};

/// The largest packet that is read as a whole: more than the system's buffer of a socket.
pub const PACKET: usize = 256 * 1024;

/// What is written at once of what is too large for one packet.
const PIECE: usize = 64 * 1024;

thread_local! {
    /// Where packets are read to: a connection that is idle needs no room.
    static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; PACKET]);
}

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let made = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    Ok(made?)
}

/// Listens for connections of packets.
#[derive(Debug)]
pub struct PacketListener(UnixListener);

impl PacketListener {
    /// Binds `path`. Has to be called inside a Tokio runtime.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let socket = socket()?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, BACKLOG)?;
        UnixListener::from_std(net::UnixListener::from(socket)).map(Self)
    }

    /// The next connection.
    ///
    /// # Errors
    /// The system's.
    pub async fn accept(&self) -> io::Result<Packets> {
        self.0
            .accept()
            .await
            .map(|(stream, _)| Packets::new(stream))
    }
}

/// A connection of packets. What is written in one piece is one packet where the system
/// has room for that, and a read with room for
/// [`PACKET`] bytes gives one.
#[derive(Debug)]
pub struct Packets {
    stream: UnixStream,
    /// The packet that was read last, and how much of it was taken.
    packet: Vec<u8>,
    taken: usize,
}

impl Packets {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            packet: Vec::new(),
            taken: 0,
        }
    }

    /// Connects to `path`. Has to be called inside a Tokio runtime.
    ///
    /// # Errors
    /// The system's; `WouldBlock` when too many wait there.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let socket = socket()?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        UnixStream::from_std(net::UnixStream::from(socket)).map(Self::new)
    }
}

impl AsyncRead for Packets {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        while own.taken == own.packet.len() {
            ready!(own.stream.poll_read_ready(cx))?;
            let packet = ROOM.with_borrow_mut(|room| {
                let read = || Ok(recv(&own.stream, &mut room[..], RecvFlags::empty())?);
                let (count, _) = own.stream.try_io(Interest::READABLE, read)?;
                io::Result::Ok(room[..count].to_vec())
            });
            match packet {
                Ok(end) if end.is_empty() => return Poll::Ready(Ok(())),
                Ok(packet) => (own.packet, own.taken) = (packet, 0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let count = into.remaining().min(own.packet.len() - own.taken);
        into.put_slice(&own.packet[own.taken..own.taken + count]);
        own.taken += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Packets {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let too_large = io::Error::from(Errno::MSGSIZE).raw_os_error();
        let mut bytes = bytes;
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            let send = || Ok(send(&self.stream, bytes, SendFlags::NOSIGNAL)?);
            match self.stream.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.raw_os_error() == too_large && bytes.len() > PIECE => {
                    bytes = &bytes[..PIECE];
                }
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = shutdown(&self.stream, Shutdown::Write);
        Poll::Ready(ended.map_err(io::Error::from))
    }
}
