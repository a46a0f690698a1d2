//! What all parts of one server share: its links, and the requests that it owes an answer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use saline_protocol::transport::{
    Answer, Context, Delivery, Error, Instant, Metric, ReplyRoute, ReplyToken, Result, Topic,
};

use crate::lock;
use crate::subscriber::Subscription;

/// What all parts of one server share.
#[derive(Debug)]
pub(crate) struct ServerCore {
    /// What it was given.
    pub(crate) context: Context,
    /// One for each request that may be held unanswered.
    pub(crate) permits: Arc<Semaphore>,
    /// Cancelled when a shutdown begins: from then on no request is taken or handed out.
    pub(crate) drain: CancellationToken,
    /// A request was queued, or the server ends.
    pub(crate) arrived: Notify,
    /// A request was answered, or a link is gone.
    answered: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Neither links nor publications any more.
    pub(crate) closed: bool,
    /// Whether the stream of requests was dropped, so that nobody will ever answer.
    pub(crate) unread: bool,
    /// Until when a shutdown waits for answers.
    pub(crate) deadline: Option<Instant>,
    /// Whether the shutdown had to cut something.
    pub(crate) cut_short: bool,
    last_number: u64,
    pub(crate) links: HashMap<u64, ServerLink>,
    /// Requests that were taken and not handed out yet.
    pub(crate) queue: VecDeque<(ReplyToken, Bytes)>,
    /// Requests that were taken and not answered yet.
    pub(crate) unanswered: HashMap<ReplyToken, Unanswered>,
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Whether somebody waits for an answer that can still come.
    pub(crate) fn owes_an_answer(&self) -> bool {
        self.unanswered.values().any(Unanswered::is_awaited)
    }
}

#[derive(Debug)]
pub(crate) struct ServerLink {
    closed: CancellationToken,
    subscriptions: Vec<Arc<Subscription>>,
}

#[derive(Debug)]
pub(crate) struct Unanswered {
    /// The way back; `None` when the link is gone, the handler still being at work.
    back: Option<oneshot::Sender<Answer>>,
    _permit: OwnedSemaphorePermit,
}

impl Unanswered {
    /// Whether somebody still waits for the answer.
    fn is_awaited(&self) -> bool {
        self.back.as_ref().is_some_and(|back| !back.is_closed())
    }
}

impl ServerCore {
    /// A server without links.
    pub(crate) fn new(context: Context) -> Arc<Self> {
        let unanswered = context.limits.requests_unanswered;
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(unanswered.min(Semaphore::MAX_PERMITS))),
            drain: CancellationToken::new(),
            arrived: Notify::new(),
            answered: Notify::new(),
            state: Mutex::new(State::default()),
            context,
        })
    }

    /// Its state, locked.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Takes a link: its number, and a token that says when it is down.
    pub(crate) fn accept(&self) -> Option<(u64, CancellationToken)> {
        let mut state = lock(&self.state);
        if state.closed || self.drain.is_cancelled() {
            return None;
        }
        if state.links.len() >= self.context.limits.connections {
            self.context.count(Metric::PeersRefused);
            return None;
        }
        let connection = state.next_number();
        let closed = CancellationToken::new();
        let link = ServerLink {
            closed: closed.clone(),
            subscriptions: Vec::new(),
        };
        state.links.insert(connection, link);
        self.context.count(Metric::Connected);
        Some((connection, closed))
    }

    /// Cuts a link. Its requests go nowhere. False when it has gone.
    pub(crate) fn cut(&self, connection: u64) -> bool {
        let mut state = lock(&self.state);
        let Some(link) = state.links.remove(&connection) else {
            return false;
        };
        link.closed.cancel();
        let State {
            queue, unanswered, ..
        } = &mut *state;
        queue.retain(|(token, _)| {
            let stays = token.connection != connection;
            if !stays {
                unanswered.remove(token);
            }
            stays
        });
        for (token, request) in unanswered {
            if token.connection == connection {
                request.back = None;
            }
        }
        self.context.count(Metric::Disconnected);
        self.answered.notify_one();
        true
    }

    /// Resolves when no request is taken any more.
    pub(crate) async fn draining(&self) {
        self.drain.cancelled().await;
    }

    /// Waits until one request more may be held; `None` when none is taken any more.
    pub(crate) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }

    /// Takes a request. A peer that sends more than the limit is cut.
    pub(crate) fn take(
        &self,
        connection: u64,
        payload: Bytes,
        permit: OwnedSemaphorePermit,
    ) -> Option<oneshot::Receiver<Answer>> {
        let (back, answer) = oneshot::channel();
        if payload.len() > self.context.limits.max_message {
            self.context.count(Metric::PeersRefused);
            self.cut(connection);
            // `back` is dropped here, which the requester sees as a lost link.
            return Some(answer);
        }
        let mut state = lock(&self.state);
        if self.drain.is_cancelled() || !state.links.contains_key(&connection) {
            return None;
        }
        if state.unread {
            let _ = back.send(Answer::NoReply);
            return Some(answer);
        }
        let token = ReplyToken {
            connection,
            request: state.next_number(),
        };
        let request = Unanswered {
            back: Some(back),
            _permit: permit,
        };
        state.unanswered.insert(token, request);
        state.queue.push_back((token, payload));
        self.arrived.notify_one();
        Some(answer)
    }

    /// Starts sending to `subscriptions` over a link. False when it is down.
    pub(crate) fn attach(
        &self,
        connection: u64,
        subscriptions: &[Arc<Subscription>],
        announce: bool,
    ) -> bool {
        let mut state = lock(&self.state);
        let Some(link) = state.links.get_mut(&connection) else {
            return false;
        };
        for subscription in subscriptions {
            if announce {
                subscription.push(Delivery::Connected);
            }
            link.subscriptions.push(Arc::clone(subscription));
        }
        true
    }

    /// Stops sending to `subscription`.
    pub(crate) fn detach(&self, connection: u64, subscription: &Arc<Subscription>) {
        if let Some(link) = lock(&self.state).links.get_mut(&connection) {
            link.subscriptions
                .retain(|other| !Arc::ptr_eq(other, subscription));
        }
    }

    /// Hands `payload` to every subscription that takes `topic`.
    pub(crate) fn publish(&self, topic: &Topic, payload: &Bytes) -> Result<()> {
        // Under the lock, so that every subscriber sees the same order.
        let state = lock(&self.state);
        if state.closed || self.drain.is_cancelled() {
            return Err(Error::closed());
        }
        for subscription in state.links.values().flat_map(|link| &link.subscriptions) {
            if subscription.takes(topic) {
                subscription.push(Delivery::Message {
                    topic: topic.clone(),
                    payload: payload.clone(),
                });
            }
        }
        Ok(())
    }

    /// How many subscriptions take `topic`.
    pub(crate) fn subscriptions(&self, topic: &Topic) -> usize {
        let state = lock(&self.state);
        let all = state.links.values().flat_map(|link| &link.subscriptions);
        all.filter(|subscription| subscription.takes(topic)).count()
    }

    /// The first request of the queue. One whose caller has gone leaves it here.
    pub(crate) fn first(&self) -> Option<(ReplyToken, Bytes)> {
        let mut state = lock(&self.state);
        loop {
            let (token, payload) = state.queue.pop_front()?;
            if state
                .unanswered
                .get(&token)
                .is_some_and(Unanswered::is_awaited)
            {
                return Some((token, payload));
            }
            state.unanswered.remove(&token);
        }
    }

    /// Waits until nobody waits for an answer.
    pub(crate) async fn settled(&self) {
        while lock(&self.state).owes_an_answer() {
            self.answered.notified().await;
        }
    }
}

impl ReplyRoute for ServerCore {
    fn answer(&self, token: ReplyToken, answer: Answer) {
        let request = lock(&self.state).unanswered.remove(&token);
        if let Some(back) = request.and_then(|request| request.back) {
            // A requester that has given up is no error.
            let _ = back.send(answer);
        }
        self.answered.notify_one();
    }
}
