//! The connection that a backend supplies: how it is dialled and accepted, and the pipe that it is.
//!
//! The engine drives these traits with static dispatch, so that a message pays nothing for them.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{Context as TransportContext, Endpoint, Limits, Result, Source};
use tokio::io::ReadBuf;

use crate::net::{Candidate, candidates};

/// How a transport opens and accepts its connections, without the engine above them. A transport implements it
/// beside `Transport`, begins [`serve`](crate::serve) and [`connect`](crate::connect) with it, and hands it to the conformance
/// suite, which speaks on such connections as strangers do.
pub trait Connections: Send + Sync + 'static {
    /// Its connecting side.
    type Dialer: Dialer;
    /// Its serving side.
    type Listener: Listener;

    /// Returns a dialer for `endpoint`.
    ///
    /// # Errors
    /// `Config` when the endpoint or the context asks for what cannot be.
    fn dialer(&self, endpoint: &Endpoint, context: &TransportContext) -> Result<Self::Dialer>;

    /// Binds all of `endpoint` or nothing. Returns the listeners and what was bound, port 0 replaced.
    ///
    /// # Errors
    /// `Refused` when something is in use or the system says no, `Config` when there can be no such endpoint.
    ///
    /// # Cancel safety
    /// Nothing stays bound when the future is dropped.
    fn bind(
        &self,
        endpoint: &Endpoint,
        context: &TransportContext,
    ) -> impl Future<Output = Result<(Vec<Self::Listener>, Endpoint)>> + Send;
}

/// The connecting side of a backend: opens connections.
pub trait Dialer: Send + Sync + 'static {
    /// The connection that it opens.
    type Pipe: Pipe;

    /// Returns the places to try for `endpoint`, in order. Called for every attempt to connect, so
    /// that names are resolved afresh. The default resolves names and checks paths of Unix sockets.
    ///
    /// # Errors
    /// `Unreachable` when no name resolves, `Config` when the endpoint can have no place.
    ///
    /// # Cancel safety
    /// Nothing stays when the future is dropped.
    fn candidates(
        &self,
        endpoint: &Endpoint,
    ) -> impl Future<Output = Result<Vec<Candidate>>> + Send {
        candidates(endpoint)
    }

    /// Returns how long the next attempt to connect may take, all places and the engine's greeting together. The
    /// default is `limits.connect_timeout`. A carrier on which clients wait for their turns may give more after an
    /// attempt that was not answered.
    fn attempt_time(&self, limits: &Limits) -> Duration {
        limits.connect_timeout
    }

    /// Opens a connection to one place, with whatever handshake the backend has below the engine's
    /// greeting (TLS, an HTTP upgrade). The engine bounds the time and tries the next place.
    ///
    /// # Errors
    /// The system's, or one whose text says why the peer and this side do not agree. `InvalidInput`
    /// says that no peer could ever be reached with this configuration.
    ///
    /// # Cancel safety
    /// Nothing stays connected when the future is dropped.
    fn dial(&self, candidate: &Candidate) -> impl Future<Output = io::Result<Self::Pipe>> + Send;

    /// Waits until the tasks of earlier attempts have ended, those whose future was dropped among them.
    /// The engine calls it when the client's last connection is gone, so that a shutdown leaves no task.
    /// The default does nothing: most dialers have no tasks.
    ///
    /// # Cancel safety
    /// What has not ended is waited for by the next call.
    fn close(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// The serving side of a backend: one bound address. Dropping it frees the address.
pub trait Listener: Send + 'static {
    /// A connection that was accepted and of which nothing was read.
    type Incoming: Incoming;

    /// Returns the next connection, without waiting for anything that its peer does: handshakes
    /// belong into [`Incoming::establish`], which runs apart.
    ///
    /// # Errors
    /// The system's. After an error that is about one connection (`ConnectionAborted`,
    /// `PermissionDenied` and the like) the engine accepts on at once, after any other one (out of
    /// descriptors) a little later.
    ///
    /// # Cancel safety
    /// No connection is lost when the future is dropped.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Incoming>> + Send;

    /// Takes no more connections and frees the address. Called once, when a shutdown begins; `ended`
    /// resolves when every connection has ended or was cut at the deadline; a little time is left then.
    /// The default drops the listener at once, which is right where connections go on without it. A
    /// listener whose connections share its socket, as in QUIC, waits for them and ends its own tasks.
    fn close(self, ended: impl Future<Output = ()> + Send) -> impl Future<Output = ()> + Send
    where
        Self: Sized,
    {
        drop((self, ended));
        async {}
    }
}

/// A connection that was accepted. Dropping it hangs up.
pub trait Incoming: Send + 'static {
    /// The connection that it becomes.
    type Pipe: Pipe;

    /// Returns where it comes from, which it knows without hearing from its peer: [`Source::of`] its address, or the
    /// user at the other end of a Unix socket.
    fn source(&self) -> Source;

    /// Returns the remote address, for people to read. The default is none.
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    /// Turns it away, because the server has too many connections that have not greeted. The default
    /// hangs up.
    fn refuse(self)
    where
        Self: Sized,
    {
    }

    /// Makes a pipe of it, with whatever handshake the backend has below the engine's greeting. The
    /// engine bounds the time by [`Limits::handshake_timeout`] and the number of those at work.
    ///
    /// # Errors
    /// `InvalidData` when the peer was refused, with a text that says why: it is counted and logged.
    /// Any other error is a peer that left.
    ///
    /// # Cancel safety
    /// The connection ends when the future is dropped.
    ///
    /// [`Limits::handshake_timeout`]: saline_protocol::transport::Limits::handshake_timeout
    fn establish(self) -> impl Future<Output = io::Result<Self::Pipe>> + Send
    where
        Self: Sized;
}

/// A connection that carries bytes in order, both ways. Boundaries between reads or writes mean
/// nothing, so a connection of packets (WebSocket, SEQPACKET) is a pipe as well.
pub trait Pipe: Send + 'static {
    /// The half that reads.
    type Read: ReadPipe;
    /// The half that writes.
    type Write: WritePipe;

    /// Returns SHA-256 of the certificate (its DER form) that the peer showed, if it showed one.
    fn peer_certificate(&self) -> Option<[u8; 32]> {
        None
    }

    /// Takes the halves apart. They are polled by two tasks and have to progress independently: a
    /// pipe that alternates stands still when both directions are full.
    fn split(self) -> (Self::Read, Self::Write);
}

/// Returns a number that changes whenever something has arrived from the peer.
pub type SignsOfLife = Box<dyn Fn() -> u64 + Send + Sync>;

/// The half of a [`Pipe`] that reads. Dropping both halves closes the connection.
pub trait ReadPipe: Send + Unpin + 'static {
    /// Returns a look at what arrives from the peer beside the bytes of the pipe, such as QUIC's
    /// acknowledgements, so that a lost packet is not taken for silence. The default has none, and
    /// then every byte is a sign of life.
    ///
    /// With it, a peer is judged also while nothing is read from it, because a server has more requests than it may hand
    /// out: so the number also has to change whenever it is asked for while the peer can send nothing for want of room.
    fn signs_of_life(&self) -> Option<SignsOfLife> {
        None
    }

    /// Reads what has arrived into `into`, which has room for at least one byte. Nothing read means
    /// that the peer has finished.
    ///
    /// # Errors
    /// `InvalidData` when the peer broke a rule of the connection: it is counted as refused. Any other
    /// error is a connection that broke.
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;
}

/// The half of a [`Pipe`] that writes. Bytes that it accepted count as sent: a request whose first
/// byte was accepted is never sent again.
pub trait WritePipe: Send + Unpin + 'static {
    /// Returns the largest number of bytes that one [`poll_write`](Self::poll_write) accepts; it is
    /// offered no more.
    fn largest_write(&self) -> usize {
        usize::MAX
    }

    /// Accepts bytes from the front of `pieces`, in order, and returns how many: at least one.
    ///
    /// # Errors
    /// The system's, when the connection broke.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// Whether the pipe keeps shared memory instead of copying it. Then large pieces come one at a time through
    /// [`poll_write_shared`](Self::poll_write_shared).
    fn keeps_shared_memory(&self) -> bool {
        false
    }

    /// Accepts bytes from the front of `bytes` and returns how many: at least one. The default copies them, as
    /// [`poll_write`](Self::poll_write) does.
    ///
    /// # Errors
    /// The system's, when the connection broke.
    fn poll_write_shared(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &Bytes,
    ) -> Poll<io::Result<usize>> {
        let most = bytes.len().min(self.largest_write());
        self.poll_write(cx, &[IoSlice::new(&bytes[..most])])
    }

    /// Hands everything that was accepted to the system, without waiting for the peer. Polled until it is ready after each
    /// burst of writes, before the engine waits for anything else. The default has nothing to hand over.
    ///
    /// # Errors
    /// The system's, when the connection broke.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let _ = cx;
        Poll::Ready(Ok(()))
    }

    /// Tells the peer that nothing follows, after everything that was accepted: the peer reads all of
    /// it, and then the end. Polled until it is ready; nothing is written afterwards. Ready means that dropping the pipe
    /// loses nothing any more: at once where the system sends on by itself, when the peer has acknowledged the end where
    /// the protocol runs in this process. The wait is bounded, and the pipe is [aborted](Self::abort) afterwards.
    ///
    /// # Errors
    /// The system's, when the connection broke.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Cuts the connection where it stands: what was accepted and not sent may be lost. Both halves
    /// are dropped right after. The default leaves everything to that.
    fn abort(&mut self) {}
}
