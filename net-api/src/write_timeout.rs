//! The stream of a connection whose client may not stop reading for long.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use saline_client::transport::{Clock, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes that a peer has to take for each second that writes wait for it.
const RATE: u64 = 1_024;

/// A stream that fails when its peer takes nothing of what is written for so long, or takes it more slowly than [`RATE`]. It goes below
/// TLS, so that it is the same for both, and whoever writes needs no deadline: what is written goes on for as long as the peer goes on
/// reading.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    /// How much longer writes may wait. Waiting takes of it; what the peer takes, and time in which no write waits, give to it.
    left: Duration,
    /// The time from which on no write has waited.
    ready: Instant,
    /// The write that waits, if one does.
    stalled: Option<Stalled>,
}

/// A write that waits.
struct Stalled {
    since: Instant,
    /// Ends when it has waited too long.
    end: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
}

impl<S> WriteTimeout<S> {
    /// Wraps a stream.
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            left: limit,
            ready: Clock.now(),
            stalled: None,
        }
    }

    /// Passes on how a write of so many bytes went, and fails in the place of one that waits for too long.
    fn bounded<T>(
        &mut self,
        task: &mut Context<'_>,
        written: Poll<io::Result<T>>,
        bytes_of: impl Fn(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = written {
            if let Some(stalled) = self.stalled.take() {
                self.ready = Clock.now();
                self.left = self.left.saturating_sub(self.ready - stalled.since);
            }
            let taken = written.as_ref().map_or(0, bytes_of);
            let taken = u64::try_from(taken).unwrap_or(u64::MAX);
            self.give(Duration::from_micros(
                taken.saturating_mul(1_000_000) / RATE,
            ));
            return Poll::Ready(written);
        }
        if self.stalled.is_none() {
            let since = Clock.now();
            self.give(since - self.ready);
        }
        let left = self.left;
        let stalled = self.stalled.get_or_insert_with(|| Stalled {
            since: Clock.now(),
            end: Box::pin(Clock.pause(left)),
        });
        ready!(stalled.end.as_mut().poll(task));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read what it asked for",
        )))
    }

    /// Lets writes wait for so much longer, and never for more than the limit.
    fn give(&mut self, more: Duration) {
        self.left = self.left.saturating_add(more).min(self.limit);
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
        self.bounded(task, written, |taken| *taken)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(task, slices);
        self.bounded(task, written, |taken| *taken)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(task);
        // A stream that is flushed at once, as that of a socket is, says nothing about a write that waits.
        match flushed.is_ready() {
            true => flushed,
            false => self.bounded(task, flushed, |()| 0),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(task);
        self.bounded(task, ended, |()| 0)
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

    /// Writes so many bytes to a peer that takes `at_once` bytes each time that `every` has passed. Returns how that ended, and the bytes
    /// that the peer has taken.
    async fn written(bytes: usize, at_once: usize, every: Duration) -> (io::Result<()>, usize) {
        let (ours, mut theirs) = tokio::io::duplex(1_024);
        let mut ours = WriteTimeout::new(ours, LIMIT);
        let write = async move {
            ours.write_all(&vec![7; bytes]).await?;
            ours.shutdown().await
        };
        let read = async {
            let mut got = 0;
            loop {
                Clock.pause(every).await;
                match theirs.read(&mut vec![0; at_once]).await.unwrap() {
                    0 => return got,
                    more => got += more,
                }
            }
        };
        tokio::join!(write, read)
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_slowly_gets_everything() {
        let began = Clock.now();
        let (ended, got) = written(100_000, 1_024, Duration::from_millis(900)).await;
        ended.unwrap();
        assert_eq!(got, 100_000);
        assert!(Clock.now() - began > 2 * LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_a_byte_now_and_then_is_not_waited_for() {
        let (ended, got) = written(100_000, 1, LIMIT - Duration::from_secs(1)).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        // What the buffer between them holds, and a byte beside that.
        assert!(got < 1_024 + 3, "{got}");
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_nothing_waits_is_given_back() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut ours = WriteTimeout::new(ours, LIMIT);
        let long = LIMIT - Duration::from_secs(1);
        for _ in 0..3 {
            let write = async {
                ours.write_all(&[7; 16]).await.unwrap();
                ours
            };
            let read = async {
                Clock.pause(long).await;
                theirs.read_exact(&mut [0; 16]).await.unwrap();
            };
            (ours, _) = tokio::join!(write, read);
            Clock.pause(long).await;
        }
    }
}
