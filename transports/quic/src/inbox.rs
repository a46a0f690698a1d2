//! Requests between the connections that read them and whoever handles them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{Answer, Peer, Reply, ReplyRoute, ReplyToken, Request, Requests};
use tokio::sync::Notify;

use crate::connection::ServerLink;
use crate::lock;
use crate::server::Alive;
use crate::state::ServerCore;

/// Requests that were taken and not handed out yet. Where both are held, `next` is locked before
/// `waiting`.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    /// Taken from there at once, so that handler and connections rarely meet at a lock.
    next: Mutex<VecDeque<Arrived>>,
    /// A request came in, or the server ends.
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Arrived>,
    /// The handler waits.
    idle: bool,
    /// None is handed out any more.
    closed: bool,
    /// Whether the stream of requests was dropped, so that nobody will ever answer.
    unread: bool,
}

/// A request that came in and has its permit, which it gives back unless it is handed out.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// Gone when it was handed out.
    link: Option<Arc<ServerLink>>,
    id: u64,
    payload: Bytes,
}

impl Arrived {
    /// A request for which a permit was taken.
    pub(crate) fn new(link: &Arc<ServerLink>, id: u64, payload: Bytes) -> Self {
        Self {
            link: Some(Arc::clone(link)),
            id,
            payload,
        }
    }

    /// Hands it out; `None` when its connection is over. Its answer gives the permit back.
    fn into_request(mut self, max_message: usize) -> Option<Request> {
        let link = self.link.take_if(|link| !link.is_closed())?;
        link.owed.fetch_add(1, Ordering::SeqCst);
        let peer = Peer::new(link.number, Some(link.address));
        let token = ReplyToken {
            connection: link.number,
            request: self.id,
        };
        let reply = Reply::new(link as Arc<dyn ReplyRoute>, token, max_message);
        Some(Request::new(peer, std::mem::take(&mut self.payload), reply))
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            link.core.release();
        }
    }
}

impl Inbox {
    /// Takes requests in to be handed out. A server that drains takes none.
    pub(crate) fn take(&self, requests: &mut Vec<Arrived>) {
        if requests.is_empty() {
            return;
        }
        let mut waiting = lock(&self.waiting);
        if waiting.closed || waiting.unread {
            let unread = !waiting.closed;
            drop(waiting);
            for request in requests.drain(..) {
                if let (true, Some(link)) = (unread, &request.link) {
                    link.reply(request.id, Answer::NoReply);
                }
            }
            return;
        }
        waiting.queue.extend(requests.drain(..));
        let idle = std::mem::take(&mut waiting.idle);
        drop(waiting);
        if idle {
            self.arrived.notify_one();
        }
    }

    /// What there is to hand out: a request, nothing now, or nothing ever.
    fn look(&self, max_message: usize) -> Poll<Option<Request>> {
        let mut next = lock(&self.next);
        loop {
            if next.is_empty() {
                let mut waiting = lock(&self.waiting);
                if waiting.closed {
                    return Poll::Ready(None);
                }
                std::mem::swap(&mut *next, &mut waiting.queue);
                waiting.idle = next.is_empty();
            }
            let Some(request) = next.pop_front() else {
                return Poll::Pending;
            };
            // Before the lock goes: a shutdown that comes now sees that it is owed.
            if let Some(request) = request.into_request(max_message) {
                return Poll::Ready(Some(request));
            }
        }
    }

    /// Nobody will ever answer: what waits and what comes is told so.
    fn leave_unread(&self) {
        let mut left = Vec::from(std::mem::take(&mut *lock(&self.next)));
        {
            let mut waiting = lock(&self.waiting);
            waiting.unread = true;
            left.extend(std::mem::take(&mut waiting.queue));
        }
        self.take(&mut left);
    }

    /// Hands out none any more.
    pub(crate) fn close(&self) {
        let queue = {
            let mut waiting = lock(&self.waiting);
            waiting.closed = true;
            std::mem::take(&mut waiting.queue)
        };
        let next = std::mem::take(&mut *lock(&self.next));
        drop((queue, next));
        self.arrived.notify_one();
    }
}

/// Hands requests out.
#[derive(Debug)]
pub(crate) struct QuicRequests {
    pub(crate) core: Arc<ServerCore>,
    pub(crate) _alive: Arc<Alive>,
}

impl QuicRequests {
    fn look(&self) -> Poll<Option<Request>> {
        self.core.inbox.look(self.core.limits().max_message)
    }
}

#[async_trait]
impl Requests for QuicRequests {
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

impl Drop for QuicRequests {
    fn drop(&mut self) {
        self.core.inbox.leave_unread();
    }
}
