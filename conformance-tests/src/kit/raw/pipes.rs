//! Connections of a transport over the engine, without the engine: what is inside of them is the suite's.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use saline_engine::{Connections, Dialer, Incoming, Listener, Pipe, ReadPipe, WritePipe};
use saline_protocol::transport::{self, Endpoint, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Mutex, mpsc};

/// Connections that were accepted and not taken.
const ACCEPTED: usize = 64;

type Made<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A fresh instance of a transport over the engine, and its connections without the engine: what
/// [`Backend::raw`](crate::Backend::raw) returns.
#[derive(Clone)]
pub struct RawTransport {
    /// The instance.
    pub(crate) transport: Arc<dyn Transport>,
    /// Its connections.
    pub(crate) connections: Arc<dyn RawConnections>,
}

impl RawTransport {
    /// Returns `transport` as both.
    pub fn of(transport: impl Transport + Connections) -> Self {
        let transport = Arc::new(transport);
        Self {
            connections: Arc::clone(&transport) as _,
            transport,
        }
    }
}

impl fmt::Debug for RawTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RawTransport")
            .field(&self.transport)
            .finish()
    }
}

/// [`Connections`] of any kind.
pub(crate) trait RawConnections: Send + Sync {
    /// Opens a connection to the first place of `at` that takes one.
    fn dial<'a>(
        &'a self,
        at: &'a Endpoint,
        context: &'a transport::Context,
    ) -> Made<'a, io::Result<RawPipe>>;

    /// Listens at `at`, in tasks of `context`. Returns where, too.
    fn listen<'a>(
        &'a self,
        at: &'a Endpoint,
        context: &'a transport::Context,
    ) -> Made<'a, io::Result<(RawPipes, Endpoint)>>;
}

impl<C: Connections> RawConnections for C {
    fn dial<'a>(
        &'a self,
        at: &'a Endpoint,
        context: &'a transport::Context,
    ) -> Made<'a, io::Result<RawPipe>> {
        Box::pin(async move {
            // Each has a dialer of its own, which may end one connection before the next.
            let dialer = self.dialer(at, context).map_err(io::Error::other)?;
            let places = dialer.candidates(at).await.map_err(io::Error::other)?;
            let mut failed = io::Error::from(io::ErrorKind::NotFound);
            for place in places {
                match dialer.dial(&place).await {
                    Ok(pipe) => return Ok(RawPipe::of(pipe, dialer)),
                    Err(error) => failed = error,
                }
            }
            Err(failed)
        })
    }

    fn listen<'a>(
        &'a self,
        at: &'a Endpoint,
        context: &'a transport::Context,
    ) -> Made<'a, io::Result<(RawPipes, Endpoint)>> {
        Box::pin(async move {
            let (listeners, bound) = self.bind(at, context).await.map_err(io::Error::other)?;
            let (accepted, pipes) = mpsc::channel(ACCEPTED);
            for listener in listeners {
                let accepted = accepted.clone();
                context.spawn(accept(listener, accepted, context.clone()));
            }
            Ok((RawPipes(Mutex::new(pipes)), bound))
        })
    }
}

/// Accepts until nobody takes what was accepted. A handshake holds up nobody else's.
async fn accept<L: Listener>(
    mut listener: L,
    accepted: mpsc::Sender<RawPipe>,
    context: transport::Context,
) {
    loop {
        let incoming = tokio::select! {
            () = context.cancel.cancelled() => return,
            () = accepted.closed() => return,
            incoming = listener.accept() => incoming,
        };
        let Ok(incoming) = incoming else {
            continue;
        };
        let (accepted, cancel) = (accepted.clone(), context.cancel.clone());
        context.spawn(async move {
            let established = async {
                if let Ok(pipe) = incoming.establish().await {
                    // Nobody may be there any more to take it.
                    let _ = accepted.send(RawPipe::of(pipe, ())).await;
                }
            };
            tokio::select! {
                () = cancel.cancelled() => {}
                () = established => {}
            }
        });
    }
}

/// Connections that come in.
#[derive(Debug)]
pub(crate) struct RawPipes(Mutex<mpsc::Receiver<RawPipe>>);

impl RawPipes {
    /// The next connection.
    pub async fn accept(&self) -> io::Result<RawPipe> {
        let next = self.0.lock().await.recv().await;
        next.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

/// The two halves of a pipe, whatever its type.
trait Halves: Send + Unpin {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn abort(&mut self);
}

struct Split<R, W, D> {
    read: R,
    write: W,
    /// What was accepted may wait to be handed on.
    is_unflushed: bool,
    /// Lives as long as its connection.
    _dialer: Box<D>,
}

impl<R: ReadPipe, W: WritePipe, D: Send> Split<R, W, D> {
    /// Hands on what waits, as far as that is possible now.
    fn flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_unflushed {
            ready!(self.write.poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl<R: ReadPipe, W: WritePipe, D: Send> Halves for Split<R, W, D> {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // Who only reads hands on as well what waits. An error shows where something is written.
        let _ = self.flush(cx);
        self.read.poll_read(cx, into)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.flush(cx))?;
        let most = bytes.len().min(self.write.largest_write());
        let written = ready!(self.write.poll_write(cx, &[IoSlice::new(&bytes[..most])]))?;
        self.is_unflushed = true;
        let _ = self.flush(cx);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flush(cx)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.flush(cx))?;
        self.write.poll_finish(cx)
    }

    fn abort(&mut self) {
        self.write.abort();
    }
}

/// A connection without the engine.
pub(crate) struct RawPipe {
    halves: Box<dyn Halves>,
    /// Dropping it cuts the connection where it stands.
    aborts: AtomicBool,
}

impl RawPipe {
    fn of(pipe: impl Pipe, dialer: impl Send + 'static) -> Self {
        let (read, write) = pipe.split();
        let halves = Split {
            read,
            write,
            is_unflushed: false,
            _dialer: Box::new(dialer),
        };
        Self {
            halves: Box::new(halves),
            aborts: AtomicBool::new(false),
        }
    }

    /// Cuts the connection when it is dropped.
    pub fn abort_at_the_end(&self) {
        self.aborts.store(true, Ordering::Relaxed);
    }
}

impl Drop for RawPipe {
    fn drop(&mut self) {
        if self.aborts.load(Ordering::Relaxed) {
            self.halves.abort();
        }
    }
}

impl fmt::Debug for RawPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawPipe").finish_non_exhaustive()
    }
}

impl AsyncRead for RawPipe {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        self.get_mut().halves.poll_read(cx, into)
    }
}

impl AsyncWrite for RawPipe {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.get_mut().halves.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().halves.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().halves.poll_finish(cx)
    }
}
