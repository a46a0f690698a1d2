//! A pipe of any stream of Tokio's.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream};

use crate::pipe::{Pipe, ReadPipe, WritePipe};

/// A [`Pipe`] of anything that is `AsyncRead` and `AsyncWrite`.
///
/// ```
/// use saline_engine::StreamPipe;
///
/// let (near, _far) = tokio::io::duplex(1024);
/// let pipe = StreamPipe::of(near);
/// ```
#[derive(Debug)]
pub struct StreamPipe<R, W> {
    read: R,
    write: W,
}

impl<S: AsyncRead + AsyncWrite> StreamPipe<ReadHalf<S>, WriteHalf<S>> {
    /// Splits `stream`. The halves share a lock that is held while one of them is polled, never while
    /// it waits; a stream that splits by itself goes to [`from_halves`](Self::from_halves).
    pub fn of(stream: S) -> Self {
        let (read, write) = tokio::io::split(stream);
        Self { read, write }
    }
}

impl<R, W> StreamPipe<R, W> {
    /// Makes a pipe of the two halves of one stream.
    pub fn from_halves(read: R, write: W) -> Self {
        Self { read, write }
    }

    /// Returns the two halves.
    #[cfg(test)]
    pub(crate) fn into_halves(self) -> (R, W) {
        (self.read, self.write)
    }
}

impl StreamPipe<tokio::net::tcp::OwnedReadHalf, tokio::net::tcp::OwnedWriteHalf> {
    /// Makes a pipe of a TCP connection.
    pub fn of_tcp(stream: TcpStream) -> Self {
        let (read, write) = stream.into_split();
        Self { read, write }
    }
}

impl StreamPipe<tokio::net::unix::OwnedReadHalf, tokio::net::unix::OwnedWriteHalf> {
    /// Makes a pipe of a connection over a Unix socket.
    pub fn of_unix(stream: UnixStream) -> Self {
        let (read, write) = stream.into_split();
        Self { read, write }
    }
}

impl<R, W> Pipe for StreamPipe<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Read = StreamRead<R>;
    type Write = StreamWrite<W>;

    fn split(self) -> (Self::Read, Self::Write) {
        (StreamRead(self.read), StreamWrite(self.write))
    }
}

/// The half of a [`StreamPipe`] that reads.
#[derive(Debug)]
pub struct StreamRead<R>(R);

impl<R: AsyncRead + Send + Unpin + 'static> ReadPipe for StreamRead<R> {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

/// The half of a [`StreamPipe`] that writes.
#[derive(Debug)]
pub struct StreamWrite<W>(W);

impl<W: AsyncWrite + Send + Unpin + 'static> WritePipe for StreamWrite<W> {
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = Pin::new(&mut self.0);
        match pieces {
            [piece] => stream.poll_write(cx, piece),
            pieces => stream.poll_write_vectored(cx, pieces),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
