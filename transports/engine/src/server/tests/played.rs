//! A server whose connections are brought by a test, which plays their clients.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use saline_protocol::transport::{Clock, Instant, Limits, Peer, Request, Requests, Source};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Bare, soon};
use crate::pipe::{Incoming, Listener};
use crate::server::EngineControl;
use crate::server::accept::accept;
use crate::server::publisher::EnginePublisher;
use crate::server::requests::EngineRequests;
use crate::wire::testing::{MemoryPipe, PlayedPeer, filters};
use crate::wire::{Frame, FrameKind, Greeting};
use crate::{StreamPipe, lock};

/// The bytes that either end of a connection takes before they are read.
pub(super) const ROOM: usize = 1 << 20;

type AnyPipe = StreamPipe<Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>>;

/// A connection that a test brings.
pub(super) struct Arrival {
    pub(super) source: Source,
    pub(super) established: io::Result<AnyPipe>,
    pub(super) is_refused: Arc<AtomicBool>,
}

impl Arrival {
    pub(super) fn new(
        source: Source,
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self {
            source,
            established: Ok(StreamPipe::from_halves(Box::new(read), Box::new(write))),
            is_refused: Arc::default(),
        }
    }

    fn of_memory(source: Source, pipe: MemoryPipe) -> Self {
        let (read, write) = pipe.into_halves();
        Self::new(source, read, write)
    }
}

impl Incoming for Arrival {
    type Pipe = AnyPipe;

    fn source(&self) -> Source {
        self.source
    }

    fn refuse(self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }

    async fn establish(self) -> io::Result<AnyPipe> {
        self.established
    }
}

/// A listener that keeps the time at which its connections had ended.
struct ArrivalQueue {
    arrivals: mpsc::Receiver<io::Result<Arrival>>,
    ended: Arc<Mutex<Option<Instant>>>,
}

impl Listener for ArrivalQueue {
    type Incoming = Arrival;

    async fn accept(&mut self) -> io::Result<Arrival> {
        match self.arrivals.recv().await {
            Some(arrival) => arrival,
            None => std::future::pending().await,
        }
    }

    async fn close(self, ended: impl Future<Output = ()> + Send) {
        ended.await;
        *lock(&self.ended) = Some(Clock.now());
    }
}

/// A server, and what its user holds.
pub(super) struct Serving {
    pub(super) server: Bare,
    pub(super) requests: EngineRequests,
    pub(super) publisher: EnginePublisher,
    pub(super) control: EngineControl,
    /// When all connections had ended, after a shutdown.
    pub(super) ended: Arc<Mutex<Option<Instant>>>,
    arrivals: mpsc::Sender<io::Result<Arrival>>,
}

impl Serving {
    pub(super) fn new(limits: Limits) -> Self {
        let server = Bare::new(limits);
        let (arrivals, queue) = mpsc::channel(64);
        let ended = Arc::default();
        let listener = ArrivalQueue {
            arrivals: queue,
            ended: Arc::clone(&ended),
        };
        server.core.lifetime.spawn(accept(listener, server.open()));
        let (core, alive) = (
            &server.core,
            Arc::new(CancellationToken::new().drop_guard()),
        );
        Self {
            requests: EngineRequests::new(Arc::clone(core), Arc::clone(&alive)),
            publisher: EnginePublisher {
                core: Arc::clone(core),
                _alive: Arc::clone(&alive),
            },
            control: EngineControl {
                core: Arc::clone(core),
                _alive: alive,
            },
            server,
            ended,
            arrivals,
        }
    }

    /// Has the listener return this.
    pub(super) async fn bring(&self, arrival: io::Result<Arrival>) {
        assert!(self.arrivals.send(arrival).await.is_ok());
    }

    /// Brings a client that has not greeted, and whose server can send so many bytes that it does not read.
    pub(super) async fn stranger(&self, source: Source, room: usize) -> PlayedPeer {
        let limits = &self.server.core.lifetime.context.limits;
        let (peer, pipe) = PlayedPeer::client(limits, room);
        self.bring(Ok(Arrival::of_memory(source, pipe))).await;
        peer
    }

    /// Brings a client, which greets.
    pub(super) async fn client(&self) -> PlayedPeer {
        let mut peer = self.stranger(Source::Process, ROOM).await;
        let limits = &self.server.core.lifetime.context.limits;
        soon(peer.greet(Greeting::of_client(limits))).await;
        peer
    }

    /// Returns the next request, which is there.
    pub(super) async fn request(&mut self) -> Request {
        soon(self.requests.next()).await.unwrap()
    }

    /// Makes sure that the server has taken everything that `peer` has said. Returns who it is.
    pub(super) async fn is_read(&mut self, peer: &mut PlayedPeer) -> Peer {
        ask(peer, 99, b"is it read?").await;
        let request = self.request().await;
        let who = request.peer;
        request.reply.send(Bytes::new()).unwrap();
        assert_eq!(soon(peer.hears()).await, Some(reply(99, b"")));
        who
    }
}

/// Sends a request.
pub(super) async fn ask(peer: &mut PlayedPeer, id: u64, payload: &[u8]) {
    let body = [&id.to_le_bytes(), payload].concat();
    peer.say(FrameKind::Request, &body).await;
}

/// Returns what a client hears when its request is answered.
pub(super) fn reply(id: u64, payload: &'static [u8]) -> Frame {
    let payload = Bytes::from_static(payload);
    Frame::Reply { id, payload }
}

/// Subscribes to these topics.
pub(super) async fn subscribe(peer: &mut PlayedPeer, id: u64, topics: &[&str]) {
    let subscribe = crate::wire::frame::subscribe(id, &filters(topics));
    peer.send(&subscribe).await;
}

/// A peer of which nothing is heard but that its connection broke like this.
pub(super) struct Breaking(pub(super) io::ErrorKind);

impl AsyncRead for Breaking {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Err(self.0.into()))
    }
}
