//! Requests between the connections that read them and whoever handles them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{Answer, Reply, ReplyRoute, ReplyToken, Request, Requests};
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;

use crate::connection::Connection;
use crate::lock;
use crate::server::Core;

/// Bytes of requests that wait to be handed out before no more are read.
const WAITING: usize = 16 * 1024 * 1024;

/// Requests between the connections and whoever handles them.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    /// Taken from there at once, so that handler and connections rarely meet at a lock. Shared, so
    /// that a handler that has stopped asking holds nothing back at the end.
    next: Mutex<VecDeque<Incoming>>,
    arrived: Notify,
    taken: Notify,
}

/// A request that was not handed out. Dropping it tells its client that there will be no reply.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Gone when it was handed out.
    connection: Option<Arc<Connection>>,
    id: u64,
    payload: Bytes,
}

impl Incoming {
    /// A request that has taken its permit.
    pub(crate) fn new(connection: &Arc<Connection>, id: u64, payload: Bytes) -> Self {
        Self {
            connection: Some(Arc::clone(connection)),
            id,
            payload,
        }
    }

    fn token(connection: &Connection, id: u64) -> ReplyToken {
        ReplyToken {
            connection: connection.peer.connection,
            request: id,
        }
    }

    /// Hands it out; `None` when its connection is over, so that nobody waits for it.
    fn into_request(mut self, max_message: usize) -> Option<Request> {
        let connection = self
            .connection
            .take_if(|connection| !connection.is_closed())?;
        let (peer, token) = (connection.peer, Self::token(&connection, self.id));
        let reply = Reply::new(connection, token, max_message);
        Some(Request::new(peer, std::mem::take(&mut self.payload), reply))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.answer(Self::token(connection, self.id), Answer::NoReply);
        }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    requests: VecDeque<Incoming>,
    bytes: usize,
    /// The handler waits.
    idle: bool,
    /// The server ends: nothing is handed out any more.
    ended: bool,
    /// Nobody will ask for requests any more.
    abandoned: bool,
}

impl Inbox {
    /// Adds what a connection has read.
    pub(crate) fn push(&self, requests: &mut Vec<Incoming>) {
        if requests.is_empty() {
            return;
        }
        let size = |incoming: &Incoming| incoming.payload.len();
        let bytes = requests.iter().map(size).sum::<usize>();
        let mut waiting = lock(&self.waiting);
        if waiting.ended || waiting.abandoned {
            drop(waiting);
            // Tells their clients that there will be no reply.
            requests.clear();
            return;
        }
        waiting.bytes += bytes;
        waiting.requests.extend(requests.drain(..));
        let idle = std::mem::take(&mut waiting.idle);
        drop(waiting);
        if idle {
            self.arrived.notify_one();
        }
    }

    /// Waits until few enough bytes wait. Returns whether it had to.
    pub(crate) async fn room(&self) -> bool {
        let mut waited = false;
        loop {
            let taken = self.taken.notified();
            tokio::pin!(taken);
            // Registered before the look, so that what is taken in between is not missed.
            taken.as_mut().enable();
            if lock(&self.waiting).bytes <= WAITING {
                return waited;
            }
            waited = true;
            taken.await;
        }
    }

    /// Hands out no more.
    pub(crate) fn end(&self) {
        let requests = {
            let mut waiting = lock(&self.waiting);
            waiting.ended = true;
            waiting.bytes = 0;
            std::mem::take(&mut waiting.requests)
        };
        let next = std::mem::take(&mut *lock(&self.next));
        // Dropping them, at the end, tells their clients that there will be no reply.
        self.arrived.notify_one();
        self.taken.notify_waiters();
        drop((requests, next));
    }
}

/// Hands requests out.
#[derive(Debug)]
pub(crate) struct TcpRequests {
    pub(crate) core: Arc<Core>,
    pub(crate) _alive: Arc<DropGuard>,
}

impl TcpRequests {
    /// What there is to hand out: a request, nothing now, or nothing ever.
    fn look(&mut self) -> Poll<Option<Request>> {
        let inbox = &self.core.inbox;
        let mut next = lock(&inbox.next);
        loop {
            if next.is_empty() {
                let mut waiting = lock(&inbox.waiting);
                if waiting.ended {
                    return Poll::Ready(None);
                }
                std::mem::swap(&mut *next, &mut waiting.requests);
                waiting.idle = next.is_empty();
                let was_full = std::mem::take(&mut waiting.bytes) > WAITING;
                drop(waiting);
                if was_full {
                    inbox.taken.notify_waiters();
                }
            }
            let Some(incoming) = next.pop_front() else {
                return Poll::Pending;
            };
            let max_message = self.core.lifetime.context.limits.max_message;
            if let Some(request) = incoming.into_request(max_message) {
                return Poll::Ready(Some(request));
            }
        }
    }
}

#[async_trait]
impl Requests for TcpRequests {
    async fn next(&mut self) -> Option<Request> {
        loop {
            match self.look() {
                Poll::Ready(next) => return next,
                Poll::Pending => self.core.inbox.arrived.notified().await,
            }
        }
    }

    async fn next_batch(&mut self, into: &mut Vec<Request>, most: usize) -> usize {
        let before = into.len();
        into.extend(self.next().await);
        while into.len() > before
            && into.len() - before < most
            && let Poll::Ready(Some(request)) = self.look()
        {
            into.push(request);
        }
        into.len() - before
    }
}

impl Drop for TcpRequests {
    fn drop(&mut self) {
        let inbox = &self.core.inbox;
        let requests = {
            let mut waiting = lock(&inbox.waiting);
            waiting.abandoned = true;
            waiting.bytes = 0;
            std::mem::take(&mut waiting.requests)
        };
        let next = std::mem::take(&mut *lock(&inbox.next));
        inbox.taken.notify_waiters();
        drop((requests, next));
    }
}
