//! Requests on their way to handlers, and answers on their way back.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use async_trait::async_trait;
use bytes::Bytes;
use saline_engine::DepartureSender;
use saline_protocol::transport::{Answer, ReplyRoute, ReplyToken, Request, Requests};
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;

use crate::frame::Frame;
use crate::joined_requests::AnswerFrame;
use crate::peer_registry::PeerRegistry;

/// Requests as they are handed up.
#[derive(Debug)]
pub(crate) struct ZmqRequests {
    exchange: Arc<RequestExchange>,
    /// Taken from the exchange at once, so that it is locked once a batch.
    batch: VecDeque<Request>,
    _alive: Arc<DropGuard>,
}

impl ZmqRequests {
    /// What `alive` guards lives at least as long as the stream.
    pub(crate) fn new(exchange: Arc<RequestExchange>, alive: Arc<DropGuard>) -> Self {
        Self {
            exchange,
            batch: VecDeque::new(),
            _alive: alive,
        }
    }
}

impl ZmqRequests {
    /// What there is to hand out: a request, nothing now, or nothing ever.
    fn look(&mut self) -> Poll<Option<Request>> {
        let ended = self.exchange.ended.load(Ordering::Acquire);
        if self.batch.is_empty() || ended {
            let mut inbox = self.exchange.inbox();
            if inbox.ended {
                // What was not handed out is not going to be answered.
                let rest = std::mem::take(&mut inbox.requests);
                drop(inbox);
                drop((rest, std::mem::take(&mut self.batch)));
                return Poll::Ready(None);
            }
            std::mem::swap(&mut self.batch, &mut inbox.requests);
        }
        match self.batch.pop_front() {
            Some(request) => Poll::Ready(Some(request)),
            None => Poll::Pending,
        }
    }
}

#[async_trait]
impl Requests for ZmqRequests {
    async fn next(&mut self) -> Option<Request> {
        loop {
            match self.look() {
                Poll::Ready(next) => return next,
                Poll::Pending => self.exchange.arrived.notified().await,
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

impl Drop for ZmqRequests {
    fn drop(&mut self) {
        let mut inbox = self.exchange.inbox();
        inbox.abandoned = true;
        let rest = std::mem::take(&mut inbox.requests);
        drop(inbox);
        drop(rest);
    }
}

/// What handlers and the task that owns the socket share.
#[derive(Debug)]
pub(crate) struct RequestExchange {
    pub(crate) peers: PeerRegistry,
    inbox: Mutex<Inbox>,
    /// The inbox has ended; told apart, so that it is locked once a batch.
    ended: AtomicBool,
    pub(crate) arrived: Notify,
    outbox: Mutex<Outbox>,
    /// Tells the task that there are answers.
    pub(crate) wake: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub(crate) requests: VecDeque<Request>,
    /// The server ends: nothing is handed out any more.
    pub(crate) ended: bool,
    /// Nobody will ask for requests any more.
    pub(crate) abandoned: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) answers: VecDeque<OutgoingAnswer>,
    /// The task is gone, and with it every way back.
    closed: bool,
}

#[derive(Debug)]
pub(crate) struct OutgoingAnswer {
    pub(crate) connection: u32,
    pub(crate) frame: AnswerFrame,
}

impl RequestExchange {
    /// Returns the exchange of a server that tells `departures`.
    pub(crate) fn new(departures: DepartureSender) -> Self {
        Self {
            peers: PeerRegistry::new(departures),
            inbox: Mutex::default(),
            ended: AtomicBool::new(false),
            arrived: Notify::new(),
            outbox: Mutex::default(),
            wake: Notify::new(),
        }
    }

    pub(crate) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        // The state is consistent after every statement, so a panic elsewhere does not spoil it.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplyRoute for RequestExchange {
    fn answer(&self, token: ReplyToken, answer: Answer) {
        let frame = match answer {
            Answer::Reply(payload) => AnswerFrame::new(Frame::Reply(token.request), payload),
            Answer::NoReply => AnswerFrame::new(Frame::NoReply(token.request), Bytes::new()),
        };
        let Ok(connection) = u32::try_from(token.connection) else {
            return;
        };
        let mut outbox = self.outbox();
        if outbox.closed {
            return;
        }
        let first = outbox.answers.is_empty();
        outbox
            .answers
            .push_back(OutgoingAnswer { connection, frame });
        drop(outbox);
        if first {
            self.wake.notify_one();
        }
    }
}

/// An exchange that closes when its task ends, however that ends.
pub(crate) struct OpenRequestExchange(pub(crate) Arc<RequestExchange>);

impl OpenRequestExchange {
    /// Hands out no more requests.
    pub(crate) fn end(&self) {
        let mut inbox = self.0.inbox();
        inbox.ended = true;
        self.0.ended.store(true, Ordering::Release);
        let rest = std::mem::take(&mut inbox.requests);
        drop(inbox);
        self.0.arrived.notify_one();
        // Tells their clients that there will be no reply.
        drop(rest);
    }
}

impl Drop for OpenRequestExchange {
    fn drop(&mut self) {
        self.end();
        self.0.peers.end();
        let mut outbox = self.0.outbox();
        outbox.closed = true;
        outbox.answers = VecDeque::new();
    }
}
