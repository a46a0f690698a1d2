//! What a client subscribes to, over whichever link stands.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use saline_engine::{DeliveryReceiver, DeliverySender, delivery_queue};
use saline_protocol::transport::{
    Context, Delivery, Error, ErrorKind, Lost, Metric, Result, Subscriber, Topic, TopicFilter,
};
use tokio::sync::oneshot;

use crate::batch::{BOUNDARY, Batch};
use crate::frame::{Kind, subscribe};
use crate::interest::Interest;
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
    /// Filters over all of them, which the server bounds.
    filters: usize,
    /// Those that are confirmed on the link that stands.
    interest: Interest<(u64, Arc<DeliverySender>)>,
    /// What the server has to be told on that link.
    unsaid: VecDeque<Unsaid>,
    linked: bool,
    closed: bool,
}

#[derive(Debug)]
struct Subscription {
    filters: Vec<TopicFilter>,
    sender: Arc<DeliverySender>,
    /// Whether it is confirmed on the link that stands.
    stands: bool,
    /// Told when it is confirmed for the first time.
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

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Adds a subscription. What comes back is told when the server has confirmed it.
    pub(crate) fn add(
        self: &Arc<Self>,
        filters: Vec<TopicFilter>,
    ) -> Result<(Box<TcpSubscriber>, oneshot::Receiver<Result<()>>)> {
        let most = self.context.limits.subscriptions_per_connection;
        let (sender, receiver) = delivery_queue(&self.context.limits);
        let (waiting, confirmed) = oneshot::channel();
        let mut state = self.state();
        if state.closed {
            return Err(Error::closed());
        }
        if filters.is_empty() || state.filters + filters.len() > most {
            return Err(too_many(most));
        }
        state.last += 1;
        let id = state.last;
        state.filters += filters.len();
        let subscription = Subscription {
            filters,
            sender: Arc::new(sender),
            stands: false,
            waiting: Some(waiting),
        };
        state.all.insert(id, subscription);
        if state.linked {
            state.unsaid.push_back(Unsaid::Subscribe(id));
        }
        drop(state);
        self.line.wake.notify_one();
        let subscriber = Box::new(TcpSubscriber {
            id,
            receiver,
            subscriptions: Arc::downgrade(self),
        });
        Ok((subscriber, confirmed))
    }

    fn withdraw(&self, id: u64) {
        let mut state = self.state();
        let Some(gone) = state.all.remove(&id) else {
            return;
        };
        state.filters -= gone.filters.len();
        if gone.stands {
            for filter in &gone.filters {
                state.interest.remove(filter, |(other, _)| *other == id);
            }
        }
        if state.linked {
            match state
                .unsaid
                .iter()
                .position(|u| *u == Unsaid::Subscribe(id))
            {
                Some(place) => drop(state.unsaid.remove(place)),
                None => state.unsaid.push_back(Unsaid::Unsubscribe(id)),
            }
        }
        drop(state);
        self.line.wake.notify_one();
    }

    /// A link stands: everything is asked for on it.
    pub(crate) fn link_up(&self) {
        let mut state = self.state();
        state.linked = true;
        let all = state.all.keys().copied().map(Unsaid::Subscribe).collect();
        state.unsaid = all;
    }

    /// It is gone.
    pub(crate) fn link_down(&self) {
        let mut state = self.state();
        state.linked = false;
        state.unsaid.clear();
        state.interest = Interest::default();
        for subscription in state.all.values_mut() {
            if std::mem::take(&mut subscription.stands) {
                subscription.sender.push(Delivery::Disconnected);
            }
        }
    }

    /// Ends all of them.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        *state = State {
            closed: true,
            ..State::default()
        };
    }

    /// Puts what the server has to be told into `batch`, up to its boundary.
    pub(crate) fn take(&self, batch: &mut Batch) {
        let mut state = self.state();
        let State { unsaid, all, .. } = &mut *state;
        while batch.len() < BOUNDARY
            && let Some(next) = unsaid.pop_front()
        {
            match next {
                Unsaid::Subscribe(id) => {
                    if let Some(subscription) = all.get(&id) {
                        batch.bytes(&subscribe(id, &subscription.filters));
                    }
                }
                Unsaid::Unsubscribe(id) => {
                    batch.frame(Kind::Unsubscribe, &id.to_le_bytes(), &Bytes::new());
                }
            }
        }
    }

    /// The server has confirmed a subscription: what comes from now on is for it.
    pub(crate) fn confirmed(&self, id: u64) {
        let mut state = self.state();
        let State { all, interest, .. } = &mut *state;
        let Some(subscription) = all.get_mut(&id).filter(|subscription| !subscription.stands)
        else {
            return;
        };
        subscription.stands = true;
        for filter in &subscription.filters {
            interest.insert(filter, (id, Arc::clone(&subscription.sender)));
        }
        match subscription.waiting.take() {
            // One whose caller has gone is withdrawn by its subscriber.
            Some(waiting) => drop(waiting.send(Ok(()))),
            None => {
                subscription.sender.push(Delivery::Connected);
            }
        }
    }

    /// The server does not take a subscription, because there are too many.
    pub(crate) fn denied(&self, id: u64) {
        let most = self.context.limits.subscriptions_per_connection;
        match self
            .state()
            .all
            .get_mut(&id)
            .map(|found| found.waiting.take())
        {
            Some(Some(waiting)) => drop(waiting.send(Err(too_many(most)))),
            // It was taken before: the server's limits have changed.
            Some(None) => tracing::warn!("the server does not restore a subscription: too many"),
            None => {}
        }
    }

    /// Hands publications to every subscriber that takes them, once each.
    pub(crate) fn publications(&self, arrived: &mut Vec<(Topic, Bytes)>) {
        if arrived.is_empty() {
            return;
        }
        let mut dropped = 0;
        {
            let state = self.state();
            // Most often one topic follows itself, so those of one topic go together.
            let mut rest = arrived.drain(..);
            while let Some((topic, _)) = rest.as_slice().first() {
                let these = rest.as_slice();
                let others = these.iter().position(|(other, _)| other != topic);
                let count = others.unwrap_or(these.len());
                let mut takers: Vec<(u64, &DeliverySender)> = Vec::new();
                for (id, sender) in state.interest.takers(topic) {
                    if !takers.iter().any(|(other, _)| other == id) {
                        takers.push((*id, sender));
                    }
                }
                let message = |(topic, payload)| Delivery::Message { topic, payload };
                let last = takers.pop();
                for (_, taker) in takers {
                    dropped += taker.push_all(these[..count].iter().cloned().map(message));
                }
                // Usually the only one, and then nothing is copied.
                let mut these = rest.by_ref().take(count);
                dropped += last.map_or(0, |(_, taker)| taker.push_all(these.by_ref().map(message)));
                // What nobody takes, or whoever took it has just gone.
                these.for_each(drop);
            }
        }
        if dropped > 0 {
            self.context.metrics.add(Metric::Lost, dropped);
        }
    }

    /// The server dropped publications that a subscriber should have got; it has counted them.
    pub(crate) fn lagged(&self, id: u64, count: u64) {
        if let Some(subscription) = self.state().all.get(&id) {
            let lost = Delivery::Lagged(Lost::Messages(count));
            subscription.sender.push(lost);
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
pub(crate) struct TcpSubscriber {
    id: u64,
    receiver: DeliveryReceiver,
    subscriptions: Weak<Subscriptions>,
}

#[async_trait]
impl Subscriber for TcpSubscriber {
    async fn next(&mut self) -> Option<Delivery> {
        self.receiver.next().await
    }

    async fn next_batch(&mut self, into: &mut Vec<Delivery>, most: usize) -> usize {
        self.receiver.next_batch(into, most).await
    }
}

impl Drop for TcpSubscriber {
    fn drop(&mut self) {
        if let Some(subscriptions) = self.subscriptions.upgrade() {
            subscriptions.withdraw(self.id);
        }
    }
}
