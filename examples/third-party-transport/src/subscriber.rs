//! What a client subscribes to, over whichever link stands.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use saline_engine::{DeliveryReceiver, DeliverySender, delivery_queue};
use saline_protocol::transport::{Context, Delivery, Error, ErrorKind, Lost, Metric, Result, Subscriber, Topic, TopicFilter};
use tokio::sync::oneshot;

use crate::frame::Frame;
use crate::line::Line;
use crate::lock;

/// The subscriptions of one client.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    context: Context,
    /// Whose writer sends what is to be said about them.
    line: Arc<Line>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    all: BTreeMap<u64, Subscription>,
    /// What the server has to be told on the link that stands.
    unsaid: VecDeque<Unsaid>,
    linked: bool,
    closed: bool,
}

#[derive(Debug)]
struct Subscription {
    filters: Vec<TopicFilter>,
    queue: DeliverySender,
    /// Whether the server has confirmed it on the link that stands.
    stands: bool,
    /// Who is told when it is confirmed for the first time.
    waiting: Option<oneshot::Sender<Result<()>>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Unsaid {
    Subscribe(u64),
    Unsubscribe(u64),
}

impl Subscriptions {
    pub(crate) fn new(context: Context, line: Arc<Line>) -> Arc<Self> {
        Arc::new(Self {
            context,
            line,
            state: Mutex::default(),
        })
    }

    /// Adds a subscription. What comes back is told when the server has confirmed it.
    pub(crate) fn add(
        self: &Arc<Self>,
        filters: Vec<TopicFilter>,
    ) -> Result<(Box<WsSubscriber>, oneshot::Receiver<Result<()>>)> {
        let most = self.context.limits.subscriptions_per_connection;
        let (queue, receiver) = delivery_queue(&self.context.limits);
        let (waiting, confirmed) = oneshot::channel();
        let mut state = lock(&self.state);
        if state.closed {
            return Err(Error::closed());
        }
        let held: usize = state.all.values().map(|other| other.filters.len()).sum();
        if filters.is_empty() || held + filters.len() > most {
            return Err(too_many(most));
        }
        state.last += 1;
        let id = state.last;
        let subscription = Subscription {
            filters,
            queue,
            stands: false,
            waiting: Some(waiting),
        };
        state.all.insert(id, subscription);
        if state.linked {
            state.unsaid.push_back(Unsaid::Subscribe(id));
        }
        drop(state);
        self.line.wake.notify_one();
        let subscriber = Box::new(WsSubscriber {
            id,
            receiver,
            subscriptions: Arc::downgrade(self),
        });
        Ok((subscriber, confirmed))
    }

    fn withdraw(&self, id: u64) {
        let mut state = lock(&self.state);
        if state.all.remove(&id).is_none() || !state.linked {
            return;
        }
        let asked_for = Unsaid::Subscribe(id);
        match state.unsaid.iter().position(|other| *other == asked_for) {
            // The server has not heard of it.
            Some(place) => drop(state.unsaid.remove(place)),
            None => state.unsaid.push_back(Unsaid::Unsubscribe(id)),
        }
        drop(state);
        self.line.wake.notify_one();
    }

    /// A link stands: everything is asked for on it.
    pub(crate) fn link_up(&self) {
        let mut state = lock(&self.state);
        state.linked = true;
        state.unsaid = state.all.keys().copied().map(Unsaid::Subscribe).collect();
    }

    /// It is gone. Those who were confirmed on it are told, the others are still asking.
    pub(crate) fn link_down(&self) {
        let mut state = lock(&self.state);
        state.linked = false;
        state.unsaid.clear();
        for subscription in state.all.values_mut() {
            if std::mem::take(&mut subscription.stands) {
                subscription.queue.push(Delivery::Disconnected);
            }
        }
    }

    /// Ends all of them: whose queue is dropped yields `None`, who waits is told `Closed`.
    pub(crate) fn close(&self) {
        *lock(&self.state) = State {
            closed: true,
            ..State::default()
        };
    }

    /// Takes what the server has to be told next.
    pub(crate) fn take(&self) -> Option<Frame> {
        let mut state = lock(&self.state);
        loop {
            match state.unsaid.pop_front()? {
                Unsaid::Subscribe(id) => {
                    if let Some(subscription) = state.all.get(&id) {
                        let filters = subscription.filters.clone();
                        return Some(Frame::Subscribe { id, filters });
                    }
                }
                Unsaid::Unsubscribe(id) => return Some(Frame::Unsubscribe(id)),
            }
        }
    }

    /// The server has confirmed a subscription: what comes from now on is for it.
    pub(crate) fn confirmed(&self, id: u64) {
        let mut state = lock(&self.state);
        let Some(subscription) = state.all.get_mut(&id) else {
            return;
        };
        subscription.stands = true;
        match subscription.waiting.take() {
            // One whose caller has gone is withdrawn by its subscriber.
            Some(waiting) => drop(waiting.send(Ok(()))),
            None => drop(subscription.queue.push(Delivery::Connected)),
        }
    }

    /// The server does not take a subscription, because there are too many.
    pub(crate) fn denied(&self, id: u64) {
        let most = self.context.limits.subscriptions_per_connection;
        let mut state = lock(&self.state);
        if let Some(waiting) = state.all.get_mut(&id).and_then(|sub| sub.waiting.take()) {
            let _ = waiting.send(Err(too_many(most)));
        }
    }

    /// Hands a publication to every subscriber that takes it, once.
    pub(crate) fn publish(&self, topic: &Topic, payload: &Bytes) {
        let state = lock(&self.state);
        let mut dropped = 0;
        for subscription in state.all.values() {
            if subscription.stands && subscription.filters.iter().any(|f| f.matches(topic)) {
                dropped += subscription.queue.push(Delivery::Message {
                    topic: topic.clone(),
                    payload: payload.clone(),
                });
            }
        }
        drop(state);
        if dropped > 0 {
            self.context.metrics.add(Metric::Lost, dropped);
        }
    }

    /// The server dropped publications for a subscriber; it has counted them.
    pub(crate) fn lagged(&self, id: u64, count: u64) {
        if let Some(subscription) = lock(&self.state).all.get(&id) {
            let lost = Delivery::Lagged(Lost::Messages(count));
            subscription.queue.push(lost);
        }
    }
}

fn too_many(most: usize) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("a connection holds one to {most} subscriptions"),
    )
}

/// The end of a subscription that is read.
#[derive(Debug)]
pub(crate) struct WsSubscriber {
    id: u64,
    receiver: DeliveryReceiver,
    subscriptions: Weak<Subscriptions>,
}

#[async_trait]
impl Subscriber for WsSubscriber {
    async fn next(&mut self) -> Option<Delivery> {
        self.receiver.next().await
    }

    async fn next_batch(&mut self, into: &mut Vec<Delivery>, most: usize) -> usize {
        self.receiver.next_batch(into, most).await
    }
}

impl Drop for WsSubscriber {
    fn drop(&mut self) {
        if let Some(subscriptions) = self.subscriptions.upgrade() {
            subscriptions.withdraw(self.id);
        }
    }
}
