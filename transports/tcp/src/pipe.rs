//! A TCP connection, a Unix socket or TLS over TCP as one pipe.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use saline_engine::{Pipe, ReadPipe, WritePipe};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf, split};
use tokio::net::{TcpStream, UnixStream, tcp, unix};
use tokio_rustls::TlsStream;

/// A connection, in two halves that progress independently.
#[derive(Debug)]
pub struct TcpPipe {
    read: TcpReadPipe,
    write: TcpWritePipe,
    /// SHA-256 of the certificate that the peer showed.
    certificate: Option<[u8; 32]>,
}

impl TcpPipe {
    /// Makes a pipe of a TCP connection.
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        let (read, write) = stream.into_split();
        Self {
            read: TcpReadPipe::Tcp(read),
            write: TcpWritePipe::Tcp(write),
            certificate: None,
        }
    }

    /// Makes a pipe of a connection over a Unix socket.
    pub(crate) fn unix(stream: UnixStream) -> Self {
        let (read, write) = stream.into_split();
        Self {
            read: TcpReadPipe::Unix(read),
            write: TcpWritePipe::Unix(write),
            certificate: None,
        }
    }

    /// Makes a pipe of a TLS connection whose peer showed `certificate`. The halves share a lock that
    /// is held while one of them is polled, never while it waits.
    pub(crate) fn tls(stream: TlsStream<TcpStream>, certificate: Option<[u8; 32]>) -> Self {
        let (read, write) = split(stream);
        Self {
            read: TcpReadPipe::Tls(read),
            write: TcpWritePipe::Tls(write),
            certificate,
        }
    }
}

impl Pipe for TcpPipe {
    type Read = TcpReadPipe;
    type Write = TcpWritePipe;

    fn peer_certificate(&self) -> Option<[u8; 32]> {
        self.certificate
    }

    fn split(self) -> (TcpReadPipe, TcpWritePipe) {
        (self.read, self.write)
    }
}

/// The half that reads.
#[derive(Debug)]
pub enum TcpReadPipe {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
    Tls(ReadHalf<TlsStream<TcpStream>>),
}

/// Every byte is a sign of life, and there is no other: a stopped client's system acknowledges what it is sent. So a client that
/// vanishes without a FIN while the server does not read it, because its request stands in line for a permit, is noticed within
/// two pings of its turn. Until then it holds its connection and its subscriptions, whose queues are bounded, and no permit; its
/// departure is told late, and those behind it in line are served as if it were there.
impl ReadPipe for TcpReadPipe {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Tls(stream) => Pin::new(stream)
                .poll_read(cx, into)
                .map_err(saline_tls::explained),
        }
    }
}

/// The half that writes.
#[derive(Debug)]
pub enum TcpWritePipe {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
    Tls(WriteHalf<TlsStream<TcpStream>>),
}

impl TcpWritePipe {
    fn stream(&mut self) -> Pin<&mut (dyn AsyncWrite + Unpin)> {
        Pin::new(match self {
            Self::Tcp(stream) => stream as &mut (dyn AsyncWrite + Unpin),
            Self::Unix(stream) => stream,
            Self::Tls(stream) => stream,
        })
    }
}

impl WritePipe for TcpWritePipe {
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // One call serves thousands of bytes, so that it may be a dynamic one.
        match pieces {
            [piece] => self.stream().poll_write(cx, piece),
            pieces => self.stream().poll_write_vectored(cx, pieces),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}
