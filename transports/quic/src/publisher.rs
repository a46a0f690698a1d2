//! Publications: who asked for what, and the queue of each connection.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{Limits, Publisher, Result, Topic, TopicFilter};
use tokio::sync::Notify;

use crate::batch::Batch;
use crate::connection::ServerLink;
use crate::frame::{Asked, Kind, LARGE, VERSION, message_head};
use crate::lock;
use crate::server::Alive;
use crate::state::ServerCore;

/// Confirmations that may wait to be written before a client is read no further.
const CONFIRMATIONS: usize = 1024;

/// Publishes for one server.
#[derive(Debug)]
pub(crate) struct QuicPublisher {
    pub(crate) core: Arc<ServerCore>,
    pub(crate) _alive: Arc<Alive>,
}

#[async_trait]
impl Publisher for QuicPublisher {
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        self.core.publish(topic, &payload)?;
        // Whoever publishes in a loop lets those have a turn who carry it away.
        tokio::task::consume_budget().await;
        Ok(())
    }

    fn subscriptions(&self, topic: &Topic) -> usize {
        self.core.subscriptions(topic)
    }
}

/// One subscription of one connection.
#[derive(Debug)]
pub(crate) struct Subscription {
    id: u64,
    filters: Vec<TopicFilter>,
    pub(crate) link: Arc<ServerLink>,
    /// The last publication that reached it, so that several filters deliver it once.
    seen: AtomicU64,
}

impl Subscription {
    pub(crate) fn new(asked: Asked, link: &Arc<ServerLink>) -> Arc<Self> {
        Arc::new(Self {
            id: asked.id,
            filters: asked.filters,
            link: Arc::clone(link),
            seen: AtomicU64::new(0),
        })
    }

    /// How much it counts towards the limit.
    pub(crate) fn filters(&self) -> usize {
        self.filters.len()
    }
}

/// Sorted by connection, because `job/all` has thousands, each of which goes alone.
type Subscribers = BTreeMap<(u64, u64), Arc<Subscription>>;

/// From topics to subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Index {
    exact: HashMap<Box<str>, Subscribers>,
    prefix: HashMap<Box<str>, Subscribers>,
    publications: u64,
}

impl Index {
    pub(crate) fn insert(&mut self, subscription: &Arc<Subscription>) {
        let key = (subscription.link.number, subscription.id);
        for filter in &subscription.filters {
            let name = filter.topic().as_str().into();
            let of_topic = self.side(filter).entry(name).or_default();
            of_topic.insert(key, Arc::clone(subscription));
        }
    }

    pub(crate) fn remove(&mut self, subscription: &Subscription) {
        let key = (subscription.link.number, subscription.id);
        for filter in &subscription.filters {
            let name = filter.topic().as_str();
            let side = self.side(filter);
            if let Some(of_topic) = side.get_mut(name) {
                of_topic.remove(&key);
                if of_topic.is_empty() {
                    side.remove(name);
                }
            }
        }
    }

    fn side(&mut self, filter: &TopicFilter) -> &mut HashMap<Box<str>, Subscribers> {
        match filter {
            TopicFilter::Exact(_) => &mut self.exact,
            TopicFilter::Prefix(_) => &mut self.prefix,
        }
    }

    /// Calls `each` once for every subscription that takes `topic`, with the number of this call.
    pub(crate) fn matching(&mut self, topic: &Topic, mut each: impl FnMut(u64, &Subscription)) {
        self.publications += 1;
        let number = self.publications;
        let name = topic.as_str();
        let ends = name.match_indices('/').map(|(at, _)| at);
        let prefixes = ends.chain([name.len()]).map(|end| &name[..end]);
        let beneath = prefixes.filter_map(|prefix| self.prefix.get(prefix));
        for subscribers in self.exact.get(name).into_iter().chain(beneath) {
            for subscription in subscribers.values() {
                // Under the lock of the index: no other publication comes between.
                if subscription.seen.swap(number, Ordering::Relaxed) != number {
                    each(number, subscription);
                }
            }
        }
    }
}

/// A publication, encoded once for all who get it.
#[derive(Debug)]
pub(crate) enum Encoded {
    /// One frame.
    Small(Bytes, usize),
    /// The topic, which is announced in its place, and the message, which travels alone.
    Large(Bytes, Bytes, Bytes),
}

impl Encoded {
    pub(crate) fn new(topic: &Topic, payload: &Bytes) -> Self {
        let mut head = message_head(topic, payload.len());
        if payload.len() > LARGE {
            let name = Bytes::copy_from_slice(topic.as_str().as_bytes());
            return Self::Large(name, head.freeze(), payload.clone());
        }
        head.extend_from_slice(payload);
        Self::Small(head.freeze(), payload.len())
    }

    fn size(&self) -> usize {
        match self {
            Self::Small(_, size) => *size,
            Self::Large(_, _, payload) => payload.len(),
        }
    }
}

/// What waits to be written on a connection's stream of publications.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    pub(crate) wake: Notify,
    /// Confirmations were written.
    taken: Notify,
    most_messages: usize,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct QueueState {
    batch: Batch,
    /// Messages and bytes that wait, those that travel alone included.
    messages: usize,
    bytes: usize,
    /// Those of them that are in the batch.
    small_messages: usize,
    small_bytes: usize,
    confirmations: usize,
    /// The last publication, and whether it was dropped.
    last: (u64, bool),
    /// Losses to be told, by subscription.
    losses: Vec<(u64, u64)>,
    closed: bool,
}

impl QueueState {
    fn tell_losses(&mut self) {
        for (subscription, count) in self.losses.drain(..) {
            self.batch.lost(subscription, count);
        }
    }
}

impl Queue {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            state: Mutex::default(),
            wake: Notify::new(),
            taken: Notify::new(),
            most_messages: limits.subscriber_queue_messages,
            most_bytes: limits.subscriber_queue_bytes,
        }
    }

    /// Takes a publication for one subscription; a connection with several takes it once. Returns
    /// how many losses that makes.
    pub(crate) fn offer(&self, number: u64, to: &Subscription, message: &Encoded) -> u64 {
        let mut state = lock(&self.state);
        if state.closed {
            return 0;
        }
        if state.last.0 != number {
            let size = message.size();
            let full = state.messages >= self.most_messages
                || (state.messages > 0 && state.bytes + size > self.most_bytes);
            state.last = (number, full);
            if !full {
                state.tell_losses();
                state.messages += 1;
                state.bytes += size;
                match message {
                    Encoded::Small(frame, _) => {
                        state.small_messages += 1;
                        state.small_bytes += size;
                        state.batch.bytes(frame);
                    }
                    Encoded::Large(name, head, payload) => {
                        state.batch.frame(Kind::Announced, 0, name);
                        to.link.alone.push(Alone {
                            head: head.clone(),
                            payload: payload.clone(),
                            is_publication: true,
                        });
                    }
                }
                self.wake.notify_one();
            }
        }
        if !state.last.1 {
            return 0;
        }
        match state.losses.iter_mut().find(|(id, _)| *id == to.id) {
            Some((_, count)) => *count += 1,
            None => state.losses.push((to.id, 1)),
        }
        1
    }

    /// Welcomes the client: what comes after this it will see.
    pub(crate) fn welcome(&self) {
        lock(&self.state).batch.bare(Kind::Welcome, VERSION);
    }

    /// Confirms or refuses a subscription, at this place in the stream.
    pub(crate) fn confirm(&self, subscription: u64, taken: bool) {
        let kind = if taken {
            Kind::Subscribed
        } else {
            Kind::Refused
        };
        let mut state = lock(&self.state);
        if state.closed {
            return;
        }
        state.tell_losses();
        state.confirmations += 1;
        state.batch.bare(kind, subscription);
        drop(state);
        self.wake.notify_one();
    }

    /// Forgets what is still to be told to a subscription that has gone.
    pub(crate) fn forget(&self, subscription: u64) {
        lock(&self.state)
            .losses
            .retain(|(id, _)| *id != subscription);
    }

    /// Waits until not too many confirmations wait: a client that reads none makes no more.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn room_to_confirm(&self) {
        while lock(&self.state).confirmations >= CONFIRMATIONS {
            self.taken.notified().await;
        }
    }

    /// How many bytes wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.state).batch.len()
    }

    /// Everything that waits, to be written next.
    pub(crate) fn take(&self) -> Vec<Bytes> {
        let mut state = lock(&self.state);
        // What was lost came after what is taken now.
        state.tell_losses();
        state.messages -= std::mem::take(&mut state.small_messages);
        state.bytes -= std::mem::take(&mut state.small_bytes);
        if std::mem::take(&mut state.confirmations) >= CONFIRMATIONS {
            self.taken.notify_one();
        }
        state.batch.take()
    }

    /// A message of `size` bytes that travels alone is on its way.
    fn release(&self, size: usize) {
        let mut state = lock(&self.state);
        state.messages = state.messages.saturating_sub(1);
        state.bytes = state.bytes.saturating_sub(size);
    }

    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        *state = QueueState {
            closed: true,
            ..QueueState::default()
        };
    }
}

/// A message that gets a stream of its own.
#[derive(Debug)]
pub(crate) struct Alone {
    pub(crate) head: Bytes,
    pub(crate) payload: Bytes,
    /// Else a reply.
    pub(crate) is_publication: bool,
}

/// The large messages of a connection, which go one after the other.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// `None` once the connection is closed.
    queue: Mutex<LaneState>,
    pub(crate) wake: Notify,
}

#[derive(Debug, Default)]
struct LaneState {
    queue: std::collections::VecDeque<Alone>,
    closed: bool,
}

impl Lane {
    pub(crate) fn push(&self, message: Alone) {
        let mut state = lock(&self.queue);
        if !state.closed {
            state.queue.push_back(message);
            self.wake.notify_one();
        }
    }

    /// The next one. It counts as sent from here on, in the queue of publications too.
    pub(crate) fn take(&self, publications: &Queue) -> Option<Alone> {
        let message = lock(&self.queue).queue.pop_front()?;
        if message.is_publication {
            publications.release(message.payload.len());
        }
        Some(message)
    }

    pub(crate) fn close(&self) {
        *lock(&self.queue) = LaneState {
            closed: true,
            ..LaneState::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_protocol::transport::Clock;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_no_confirmations_makes_no_more() {
        let queue = Queue::new(&Limits::default());
        for id in 0..CONFIRMATIONS as u64 {
            queue.room_to_confirm().await;
            queue.confirm(id, true);
        }
        let waiting = queue.room_to_confirm();
        let room = Clock.deadline(Clock.after(Duration::from_secs(60)), waiting);
        assert!(room.await.is_err(), "there is room for more than all");
        let (waiting, taken) = (queue.room_to_confirm(), async { queue.take() });
        let ((), taken) = tokio::join!(waiting, taken);
        assert!(!taken.is_empty());
    }
}
