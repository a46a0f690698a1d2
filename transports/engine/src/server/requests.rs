//! The stream of incoming requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{Answer, Reply, ReplyRoute, ReplyToken, Request, Requests};
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;

use super::ServerCore;
use super::connection::Connection;
use crate::lock;
use crate::state::{BATCH, Inbox, PushResult};

/// Requests between the connections that read them and the handler that takes them.
#[derive(Debug)]
pub(super) struct RequestQueue {
    inbox: Mutex<Inbox<InboundRequest>>,
    /// Taken from there at once, so that handler and connections rarely meet at a lock. Shared, so
    /// that a handler that has stopped asking holds nothing back at the end.
    taken: Mutex<VecDeque<InboundRequest>>,
    arrived: Notify,
    room: Notify,
}

/// A request that was not handed out. Dropping it tells its client that there will be no reply.
#[derive(Debug)]
pub(super) struct InboundRequest {
    /// Gone when it was handed out.
    connection: Option<Arc<Connection>>,
    id: u64,
    payload: Bytes,
}

impl InboundRequest {
    /// Makes a request that has its permit.
    pub(super) fn new(connection: &Arc<Connection>, id: u64, payload: Bytes) -> Self {
        Self {
            connection: Some(Arc::clone(connection)),
            id,
            payload,
        }
    }

    fn token(connection: &Connection, id: u64) -> ReplyToken {
        ReplyToken {
            connection: connection.number(),
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

impl Drop for InboundRequest {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.answer(Self::token(connection, self.id), Answer::NoReply);
        }
    }
}

impl RequestQueue {
    /// Returns a queue of which so many requests may be unanswered.
    pub(super) fn new(permits: usize) -> Self {
        Self {
            inbox: Mutex::new(Inbox::new(permits)),
            taken: Mutex::default(),
            arrived: Notify::new(),
            room: Notify::new(),
        }
    }

    /// Takes the permits of up to `wanted` requests; none while there is none, and then the connection
    /// is named when there is. Returns a connection that is named now as well.
    pub(super) fn reserve(
        &self,
        connection: u64,
        wanted: usize,
        in_turn: bool,
    ) -> (usize, Option<u64>) {
        let mut inbox = lock(&self.inbox);
        let granted = inbox.reserve(connection, wanted, in_turn);
        let next = match granted {
            0 => None,
            _ => inbox.next_in_line(),
        };
        (granted, next)
    }

    /// Gives back permits. Returns a connection that may reserve now.
    pub(super) fn release(&self, permits: usize) -> Option<u64> {
        lock(&self.inbox).release(permits)
    }

    /// Takes a connection that has gone out of the line. Returns a connection that may reserve now.
    pub(super) fn leave(&self, connection: u64) -> Option<u64> {
        lock(&self.inbox).leave(connection)
    }

    /// Adds what a connection has read.
    pub(super) fn push(&self, requests: &mut Vec<InboundRequest>) {
        let size = |request: &InboundRequest| request.payload.len();
        let bytes = requests.iter().map(size).sum::<usize>();
        let result = lock(&self.inbox).push(requests, bytes);
        match result {
            PushResult::Queued => {}
            PushResult::Wake => self.arrived.notify_one(),
            // Tells their clients that there will be no reply.
            PushResult::Refused => requests.clear(),
        }
    }

    /// Waits until few enough bytes wait. Returns whether it had to.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn room(&self) -> bool {
        let mut waited = false;
        loop {
            if !lock(&self.inbox).is_full() {
                return waited;
            }
            let room = self.room.notified();
            tokio::pin!(room);
            // Registered before the second look, so that what is taken in between is not missed.
            room.as_mut().enable();
            if !lock(&self.inbox).is_full() {
                return waited;
            }
            waited = true;
            room.await;
        }
    }

    /// Hands out no more.
    pub(super) fn end(&self) {
        let waiting = lock(&self.inbox).end();
        let taken = std::mem::take(&mut *lock(&self.taken));
        self.arrived.notify_one();
        self.room.notify_waiters();
        // Dropping them, at the end, tells their clients that there will be no reply.
        drop((waiting, taken));
    }

    fn abandon(&self) {
        let waiting = lock(&self.inbox).abandon();
        let taken = std::mem::take(&mut *lock(&self.taken));
        self.room.notify_waiters();
        drop((waiting, taken));
    }
}

/// Hands requests out.
#[derive(Debug)]
pub(super) struct EngineRequests {
    core: Arc<ServerCore>,
    /// Requests that were handed out since other tasks had their turn.
    handed_out: usize,
    _alive: Arc<DropGuard>,
}

impl EngineRequests {
    pub(super) fn new(core: Arc<ServerCore>, alive: Arc<DropGuard>) -> Self {
        Self {
            core,
            handed_out: 0,
            _alive: alive,
        }
    }

    /// Adds up to `most` requests that are there. Pending when there is none; ready with none when
    /// there will be none.
    fn take(&mut self, into: &mut Vec<Request>, most: usize) -> Poll<usize> {
        let queue = &self.core.requests;
        let max_message = self.core.lifetime.context.limits.max_message;
        let mut taken = lock(&queue.taken);
        let before = into.len();
        loop {
            if taken.is_empty() {
                let Some(was_full) = lock(&queue.inbox).take_all(&mut taken) else {
                    return Poll::Ready(into.len() - before);
                };
                if was_full {
                    queue.room.notify_waiters();
                }
                // The next request wakes whoever saw this, and nobody else.
                if taken.is_empty() {
                    return Poll::Pending;
                }
            }
            while into.len() - before < most
                && let Some(request) = taken.pop_front()
            {
                into.extend(request.into_request(max_message));
            }
            // Requests of connections that are over were passed over: there may be none in the end.
            if into.len() > before {
                return Poll::Ready(into.len() - before);
            }
        }
    }
}

#[async_trait]
impl Requests for EngineRequests {
    async fn next(&mut self) -> Option<Request> {
        let mut one = Vec::with_capacity(1);
        self.next_batch(&mut one, 1).await;
        one.pop()
    }

    async fn next_batch(&mut self, into: &mut Vec<Request>, most: usize) -> usize {
        if self.handed_out >= BATCH {
            // So that the answers to these leave while the handler works on the next ones.
            self.handed_out = 0;
            tokio::task::yield_now().await;
        }
        loop {
            match self.take(into, most.max(1)) {
                Poll::Ready(taken) => {
                    self.handed_out += taken;
                    return taken;
                }
                Poll::Pending => {
                    self.handed_out = 0;
                    self.core.requests.arrived.notified().await;
                }
            }
        }
    }
}

impl Drop for EngineRequests {
    fn drop(&mut self) {
        self.core.requests.abandon();
    }
}
