//! Subscriptions as the client holds them, and the end of each that is read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use saline_engine::{DeliveryReceiver, DeliverySender, delivery_queue};
use saline_protocol::transport::{
    Context, Delivery, Error, ErrorKind, Metric, MetricsSink, Result, Subscriber, Topic,
    TopicFilter,
};
use tokio::sync::oneshot;

use crate::batch::Batch;
use crate::client::ClientCore;
use crate::frame::{Asked, Kind};
use crate::lock;

/// What a client asked for, and the queue that it reads.
#[derive(Debug)]
pub(crate) struct Subscription {
    id: u64,
    filters: Vec<TopicFilter>,
    queue: DeliverySender,
    metrics: Arc<dyn MetricsSink>,
}

impl Subscription {
    fn takes(&self, topic: &Topic) -> bool {
        self.filters.iter().any(|filter| filter.matches(topic))
    }

    /// Queues `delivery` and counts what did not fit.
    pub(crate) fn push(&self, delivery: Delivery) {
        self.push_all([delivery]);
    }

    fn push_all(&self, deliveries: impl IntoIterator<Item = Delivery>) {
        let dropped = self.queue.push_all(deliveries);
        if dropped > 0 {
            self.metrics.add(Metric::Lost, dropped);
        }
    }

    fn asked(&self) -> Asked {
        Asked {
            id: self.id,
            filters: self.filters.clone(),
        }
    }
}

/// How far a subscription is on the link of the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Sent,
    Active,
}

#[derive(Debug)]
struct Entry {
    subscription: Arc<Subscription>,
    phase: Phase,
    /// Told of the first confirmation, after which the changes of the link are.
    first: Option<oneshot::Sender<Result<()>>>,
}

/// Every subscription of one client.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    last: u64,
    entries: BTreeMap<u64, Entry>,
    filters: usize,
    /// Whether a link has been greeted, so that changes are to be sent over it.
    greeted: bool,
    to_subscribe: VecDeque<u64>,
    to_withdraw: Vec<u64>,
    closed: bool,
}

/// What a new subscription consists of.
type Added = (u64, DeliveryReceiver, oneshot::Receiver<Result<()>>);

impl Subscriptions {
    /// Adds one, to be sent with the next batch or the next greeting.
    pub(crate) fn add(&self, filters: Vec<TopicFilter>, context: &Context) -> Result<Added> {
        let mut table = lock(&self.0);
        if table.closed {
            return Err(Error::closed());
        }
        let most = context.limits.subscriptions_per_connection;
        if table.filters + filters.len() > most {
            return Err(too_many(most));
        }
        let (queue, receiver) = delivery_queue(&context.limits);
        let (first, confirmed) = oneshot::channel();
        table.last += 1;
        table.filters += filters.len();
        let id = table.last;
        let subscription = Arc::new(Subscription {
            id,
            filters,
            queue,
            metrics: Arc::clone(&context.metrics),
        });
        let entry = Entry {
            subscription,
            phase: Phase::Waiting,
            first: Some(first),
        };
        table.entries.insert(id, entry);
        if table.greeted {
            table.to_subscribe.push_back(id);
        }
        Ok((id, receiver, confirmed))
    }

    /// Ends one. Whether the server has to be told.
    pub(crate) fn withdraw(&self, id: u64) -> bool {
        let mut table = lock(&self.0);
        let Some(entry) = table.remove(id) else {
            return false;
        };
        if entry.phase == Phase::Waiting {
            table.to_subscribe.retain(|other| *other != id);
            return false;
        }
        table.to_withdraw.push(id);
        true
    }

    /// All of them, for the greeting of a new link.
    pub(crate) fn greet(&self) -> Vec<Asked> {
        let mut table = lock(&self.0);
        table.greeted = true;
        table.to_subscribe.clear();
        table.to_withdraw.clear();
        let entries = table.entries.values_mut();
        let sent = entries.map(|entry| {
            entry.phase = Phase::Sent;
            entry.subscription.asked()
        });
        sent.collect()
    }

    /// The new link stands, and with it what its greeting asked for.
    pub(crate) fn welcome(&self) {
        for entry in lock(&self.0).entries.values_mut() {
            if entry.phase == Phase::Sent {
                entry.confirm();
            }
        }
    }

    /// The link broke.
    pub(crate) fn down(&self) {
        let mut table = lock(&self.0);
        table.greeted = false;
        table.to_subscribe.clear();
        table.to_withdraw.clear();
        for entry in table.entries.values_mut() {
            if entry.phase == Phase::Active {
                entry.subscription.push(Delivery::Disconnected);
            }
            entry.phase = Phase::Waiting;
        }
    }

    /// Writes what the server has to be told.
    pub(crate) fn write(&self, batch: &mut Batch) {
        let mut table = lock(&self.0);
        for id in std::mem::take(&mut table.to_withdraw) {
            batch.bare(Kind::Unsubscribe, id);
        }
        while let Some(id) = table.to_subscribe.pop_front() {
            if let Some(entry) = table.entries.get_mut(&id) {
                entry.phase = Phase::Sent;
                batch.subscribe(&entry.subscription.asked());
            }
        }
    }

    /// The server confirmed one.
    pub(crate) fn confirmed(&self, id: u64) {
        if let Some(entry) = lock(&self.0).entries.get_mut(&id)
            && entry.phase == Phase::Sent
        {
            entry.confirm();
        }
    }

    /// The server has no room for one.
    pub(crate) fn refused(&self, id: u64) {
        let entry = lock(&self.0).remove(id);
        if let Some(first) = entry.and_then(|entry| entry.first) {
            let refused = Error::new(ErrorKind::Config, "the server takes no more subscriptions");
            let _ = first.send(Err(refused));
        }
    }

    /// Those that take `topic` at this place in the stream.
    pub(crate) fn targets(&self, topic: &Topic) -> Vec<Arc<Subscription>> {
        let table = lock(&self.0);
        let takers = table.active().filter(|taker| taker.takes(topic));
        takers.map(Arc::clone).collect()
    }

    pub(crate) fn target(&self, id: u64) -> Option<Arc<Subscription>> {
        let table = lock(&self.0);
        let found = table.active().find(|subscription| subscription.id == id);
        found.map(Arc::clone)
    }

    /// Gives messages to all that take them.
    pub(crate) fn deliver(&self, messages: &mut Vec<(Topic, Bytes)>) {
        let table = lock(&self.0);
        // Most often one topic follows itself, so those of one topic go together.
        let mut rest = messages.drain(..);
        while let Some((topic, _)) = rest.as_slice().first() {
            let these = rest.as_slice();
            let others = these.iter().position(|(other, _)| other != topic);
            let count = others.unwrap_or(these.len());
            let mut takers: Vec<_> = table.active().filter(|taker| taker.takes(topic)).collect();
            let message = |(topic, payload)| Delivery::Message { topic, payload };
            let last = takers.pop();
            for taker in takers {
                taker.push_all(these[..count].iter().cloned().map(message));
            }
            // Usually the only one, and then nothing is copied.
            let mut these = rest.by_ref().take(count);
            if let Some(last) = last {
                last.push_all(these.by_ref().map(message));
            }
            these.for_each(drop);
        }
    }

    /// Ends all of them.
    pub(crate) fn close(&self) {
        let mut table = lock(&self.0);
        table.closed = true;
        table.entries.clear();
    }
}

impl Table {
    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.filters -= entry.subscription.filters.len();
        Some(entry)
    }

    fn active(&self) -> impl Iterator<Item = &Arc<Subscription>> {
        let entries = self.entries.values();
        let active = entries.filter(|entry| entry.phase == Phase::Active);
        active.map(|entry| &entry.subscription)
    }
}

impl Entry {
    fn confirm(&mut self) {
        self.phase = Phase::Active;
        match self.first.take() {
            // Whoever gave up withdraws it.
            Some(first) => drop(first.send(Ok(()))),
            None => self.subscription.push(Delivery::Connected),
        }
    }
}

pub(crate) fn message(topic: &Topic, payload: &Bytes) -> Delivery {
    Delivery::Message {
        topic: topic.clone(),
        payload: payload.clone(),
    }
}

fn too_many(most: usize) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("a connection holds at most {most} subscriptions"),
    )
}

/// The end that is read. It ends when the client forgets the subscription.
#[derive(Debug)]
pub(crate) struct QuicSubscriber {
    pub(crate) receiver: DeliveryReceiver,
    pub(crate) id: u64,
    pub(crate) client: Weak<ClientCore>,
}

#[async_trait]
impl Subscriber for QuicSubscriber {
    async fn next(&mut self) -> Option<Delivery> {
        self.receiver.next().await
    }

    async fn next_batch(&mut self, into: &mut Vec<Delivery>, most: usize) -> usize {
        self.receiver.next_batch(into, most).await
    }
}

impl Drop for QuicSubscriber {
    fn drop(&mut self) {
        if let Some(client) = self.client.upgrade() {
            client.withdraw(self.id);
        }
    }
}
