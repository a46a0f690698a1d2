//! A client whose servers are played by a test.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{
    AdmissionLimits, Client, Clock, Context, Counters, Endpoint, HostPort, Limits, Result,
};
use tokio_util::task::TaskTracker;

use super::super::connect;
use super::endpoint;
use crate::lock;
use crate::net::Candidate;
use crate::pipe::Dialer;
use crate::wire::testing::{MemoryPipe, PlayedPeer, numbered, soon};
use crate::wire::{Frame, FrameKind, Greeting};

/// The bytes that either end of a connection takes before they are read.
pub(super) const ROOM: usize = 1 << 20;

/// Reaches one place, each time over the next of these pipes.
struct PipeDialer(Arc<Mutex<VecDeque<MemoryPipe>>>);

impl Dialer for PipeDialer {
    type Pipe = MemoryPipe;

    async fn candidates(&self, _: &Endpoint) -> Result<Vec<Candidate>> {
        Ok(vec![Candidate::Name(HostPort::new("place", 1))])
    }

    async fn dial(&self, _: &Candidate) -> io::Result<MemoryPipe> {
        let next = lock(&self.0).pop_front();
        next.ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }
}

/// A client that is connected, and its server.
pub(super) struct Connected {
    pub(super) client: Arc<dyn Client>,
    pub(super) counters: Arc<Counters>,
    pub(super) context: Context,
    /// The next connection is made over the first of these.
    pipes: Arc<Mutex<VecDeque<MemoryPipe>>>,
    greeting: Greeting,
    limits: Limits,
    /// The callers of requests.
    tasks: TaskTracker,
}

impl Connected {
    /// Connects to a server with these limits. Returns its end of the connection, which takes so many bytes before
    /// they are read.
    pub(super) async fn new(limits: Limits, room: usize) -> (Self, PlayedPeer) {
        let counters = Counters::new();
        let mut own = limits.clone();
        own.admission = None;
        let context = Context::new(own.clone());
        let context = context.with_metrics(counters.clone());
        let pipes = Arc::<Mutex<VecDeque<_>>>::default();
        let greeting = Greeting::of_server(&limits);
        let (mut server, pipe) = PlayedPeer::server(&own, room);
        lock(&pipes).push_back(pipe);
        let dialer = PipeDialer(Arc::clone(&pipes));
        let place = endpoint();
        let connecting = connect(dialer, &place, context.clone());
        let (client, _) = tokio::join!(connecting, server.greet(greeting));
        let connected = Self {
            client: client.unwrap(),
            counters,
            context,
            pipes,
            greeting,
            limits: own,
            tasks: TaskTracker::new(),
        };
        (connected, server)
    }

    /// Has the server take another connection, once `server` is gone.
    pub(super) async fn reconnect(&self, server: PlayedPeer) -> PlayedPeer {
        let (mut next, pipe) = PlayedPeer::server(&self.limits, ROOM);
        lock(&self.pipes).push_back(pipe);
        drop(server);
        next.greet(self.greeting).await;
        next
    }

    /// Makes a request, which is waited for apart.
    pub(super) fn ask(&self, payload: impl Into<Bytes>, time: Duration) -> Asked {
        let (client, payload) = (Arc::clone(&self.client), payload.into());
        let deadline = Clock.after(time);
        self.tasks
            .spawn(async move { client.request(payload, deadline).await })
    }
}

/// Returns limits for peers that are not admitted, changed like this.
pub(super) fn before_admission(change: impl FnOnce(&mut AdmissionLimits)) -> Limits {
    let mut limits = Limits::default();
    change(limits.admission.insert(AdmissionLimits::default()));
    limits
}

/// A request that is waited for.
pub(super) type Asked = tokio::task::JoinHandle<Result<Bytes>>;

/// Returns the number of the request that a server hears next, and checks its payload.
pub(super) async fn hears_request(server: &mut PlayedPeer, payload: &[u8]) -> u64 {
    match soon(server.hears()).await {
        Some(Frame::Request { id, payload: heard }) => {
            assert!(heard == payload, "another payload");
            id
        }
        other => panic!("{other:?} instead of a request"),
    }
}

/// Answers a request.
pub(super) async fn reply(server: &mut PlayedPeer, id: u64, payload: &[u8]) {
    server.send(&numbered(FrameKind::Reply, id, payload)).await;
}
