//! The stream of a connection whose client may not stop reading for long.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use saline_client::transport::Clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that fails when its peer takes nothing of what is written for so long. It goes below TLS, so that it is the same for
/// both, and whoever writes needs no deadline: what is written goes on for as long as the peer goes on reading.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    /// Ends when the write that waits has waited too long; none while no write waits.
    stalled: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl<S> WriteTimeout<S> {
    /// Wraps a stream.
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            stalled: None,
        }
    }

    /// Passes on how a write went, and fails in the place of one that waits for too long.
    fn bounded<T>(
        &mut self,
        task: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(Clock.pause(limit)));
        ready!(stalled.as_mut().poll(task));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read what it asked for",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(task, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(task, bytes);
        self.bounded(task, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(task, slices);
        self.bounded(task, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(task);
        // A stream that is flushed at once, as that of a socket is, says nothing about a write that waits.
        match flushed.is_ready() {
            true => flushed,
            false => self.bounded(task, flushed),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(task);
        self.bounded(task, ended)
    }
}

impl<S> fmt::Debug for WriteTimeout<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteTimeout")
            .field("limit", &self.limit)
            .field("waits", &self.stalled.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_ends_the_write() {
        let (ours, theirs) = tokio::io::duplex(8);
        let mut ours = WriteTimeout::new(ours, LIMIT);
        let began = Clock.now();
        let written = Clock.deadline(Clock.after(10 * LIMIT), ours.write_all(&[7; 64]));
        let error = written.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(Clock.now() - began >= LIMIT);
        drop(theirs);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_slowly_gets_everything() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut ours = WriteTimeout::new(ours, LIMIT);
        let write = async {
            ours.write_all(&[7; 64]).await.unwrap();
            ours.shutdown().await.unwrap();
        };
        let read = async {
            let mut got = 0;
            loop {
                Clock.pause(LIMIT - Duration::from_secs(1)).await;
                match theirs.read(&mut [0; 8]).await.unwrap() {
                    0 => return got,
                    more => got += more,
                }
            }
        };
        assert_eq!(tokio::join!(write, read).1, 64);
    }
}
