//! The numbering of publications, in the queue in front of the XPUB socket: sequence numbers, confirmations, beacons.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use saline_protocol::transport::{Context, Error, Result, Topic};
use tokio::sync::Notify;

use crate::joined_publications::{self, Outgoing, SMALL};
use crate::number_set::NumberSet;
use crate::publication_wire;
use crate::socket::BATCH;

/// Filters that are remembered at once, over all subscribers. Those above it are not confirmed.
const MAX_FILTERS: usize = 65_536;

/// After how many link pings without a publication a filter's number is told again, in case the message
/// that had it was lost: three link pings in a row, then rarely, for a subscriber that was slow for long.
const BEACONS: [u16; 7] = [1, 2, 3, 6, 12, 24, 48];

/// Link pings after which a filter that nobody subscribes to is forgotten. Not at once, because the count
/// of subscriptions comes from peers, which may be strangers.
const FORGET: u16 = 120;

/// The queue that publishers and the task that owns the XPUB socket share. Sequence numbers are
/// assigned when a message is queued, so that everything with a lower number is before it.
#[derive(Debug)]
pub(crate) struct PublishQueue {
    state: Mutex<QueueState>,
    /// Wakes the task when there is something to send.
    pub(crate) wake: Notify,
    /// Wakes publishers when there is room.
    room: Notify,
    /// The identity of this publisher: random, never zero.
    incarnation: u64,
    messages: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct QueueState {
    filters: HashMap<Box<[u8]>, Filter>,
    queue: VecDeque<Outgoing>,
    bytes: usize,
    /// The topic of the last publication, and its key: most often one topic follows itself.
    last: Option<(Topic, Arc<[u8]>)>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Filter {
    subscriptions: usize,
    /// The number of the last publication that the filter took.
    number: u64,
    /// Link pings since then.
    quiet: u16,
}

impl QueueState {
    /// Returns the numbers that a publication of `topic` gets; assigns them when `take`.
    fn numbers(&mut self, topic: &[u8], take: bool) -> NumberSet {
        let mut numbers = NumberSet::default();
        for (bit, key) in publication_wire::keys_of(topic) {
            if let Some(filter) = self.filters.get_mut(key) {
                if take {
                    filter.number += 1;
                    filter.quiet = 0;
                }
                numbers.set(bit, filter.number);
            }
        }
        numbers
    }

    fn key(&mut self, topic: &Topic) -> Arc<[u8]> {
        match &self.last {
            Some((last, key)) if last == topic => Arc::clone(key),
            _ => {
                let key: Arc<[u8]> = publication_wire::exact_key(topic).into();
                self.last = Some((topic.clone(), Arc::clone(&key)));
                key
            }
        }
    }

    fn push(&mut self, outgoing: Outgoing) {
        self.bytes += outgoing.len();
        self.queue.push_back(outgoing);
    }
}

impl PublishQueue {
    pub(crate) fn new(context: &Context, incarnation: u64) -> Self {
        Self {
            state: Mutex::default(),
            wake: Notify::new(),
            room: Notify::new(),
            incarnation,
            messages: context.limits.subscriber_queue_messages.max(1),
            bytes: context.limits.subscriber_queue_bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // The state is consistent after every statement, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn subscriptions(&self, topic: &Topic) -> usize {
        let key = publication_wire::exact_key(topic);
        let state = self.lock();
        publication_wire::keys_of(&key)
            .filter_map(|(_, key)| state.filters.get(key))
            .map(|filter| filter.subscriptions)
            .sum()
    }

    /// Queues a publication as soon as there is room.
    ///
    /// # Cancel safety
    /// The message is queued whole or not at all.
    pub(crate) async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        // What is not joined with others is copied into its message before the queue is locked.
        let mut ready = None;
        if payload.len() > SMALL {
            let key = publication_wire::exact_key(topic);
            let numbers = self.lock().numbers(&key, false);
            let message = publication_wire::publication(&key, self.incarnation, &numbers, &payload);
            ready = Some(message);
        }
        loop {
            // Registered before the look, so that room made in between is not missed.
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            {
                let mut state = self.lock();
                if state.closed {
                    return Err(Error::closed());
                }
                if state.queue.is_empty()
                    || (state.queue.len() < self.messages
                        && state.bytes + payload.len() <= self.bytes)
                {
                    let key = state.key(topic);
                    let numbers = state.numbers(&key, true);
                    if numbers == NumberSet::default() {
                        // Nobody has a confirmed subscription that takes it.
                        return Ok(());
                    }
                    let outgoing = if payload.len() > SMALL {
                        let renumbered = ready
                            .and_then(|ready| publication_wire::renumber(ready, &key, &numbers));
                        Outgoing::Whole(renumbered.unwrap_or_else(|| {
                            publication_wire::publication(
                                &key,
                                self.incarnation,
                                &numbers,
                                &payload,
                            )
                        }))
                    } else {
                        Outgoing::Small {
                            key,
                            numbers,
                            payload,
                        }
                    };
                    let first = state.queue.is_empty();
                    state.push(outgoing);
                    drop(state);
                    if first {
                        self.wake.notify_one();
                    }
                    return Ok(());
                }
            }
            room.await;
        }
    }

    /// Takes up to a batch of messages to be sent. Returns how many, those that were joined counted one
    /// by one.
    pub(crate) fn take(&self, into: &mut VecDeque<zmq::Message>) -> usize {
        let mut state = self.lock();
        if state.queue.is_empty() {
            return 0;
        }
        let was_full = state.queue.len() >= self.messages || state.bytes > self.bytes / 2;
        let count = state.queue.len().min(BATCH);
        let taken: Vec<_> = state.queue.drain(..count).collect();
        let bytes: usize = taken.iter().map(Outgoing::len).sum();
        state.bytes = state.bytes.saturating_sub(bytes);
        drop(state);
        if was_full {
            self.room.notify_waiters();
        }
        joined_publications::join(taken.into_iter(), self.incarnation, into);
        count
    }

    /// Handles a subscriber's frame: a subscription or a withdrawal. Returns false for anything else.
    pub(crate) fn subscriber_said(&self, said: &[u8]) -> bool {
        let Some((&what, topic)) = said.split_first() else {
            return false;
        };
        if topic.len() > publication_wire::MAX_SUBSCRIPTION {
            return false;
        }
        if topic == publication_wire::PUBLISHER_PING || topic == publication_wire::SUBSCRIBER_PING {
            return what <= 1;
        }
        let mut state = self.lock();
        if let Some(key) = publication_wire::confirmation_key(topic) {
            if what == 1
                && let Some(filter) = state.filters.get(key)
            {
                let message = publication_wire::confirmed(topic, self.incarnation, filter.number);
                state.push(Outgoing::Whole(message));
            }
            return what <= 1;
        }
        match what {
            1 if publication_wire::is_filter_key(topic) => {
                if let Some(filter) = state.filters.get_mut(topic) {
                    filter.subscriptions += 1;
                } else if state.filters.len() < MAX_FILTERS {
                    let filter = Filter {
                        subscriptions: 1,
                        // There was no publication yet whose number could have been lost.
                        quiet: u16::MAX,
                        number: 0,
                    };
                    state.filters.insert(topic.into(), filter);
                } else {
                    return false;
                }
                true
            }
            0 => {
                if let Some(filter) = state.filters.get_mut(topic) {
                    filter.subscriptions = filter.subscriptions.saturating_sub(1);
                    if filter.subscriptions == 0 {
                        filter.quiet = filter.quiet.min(FORGET / 2);
                    }
                }
                true
            }
            _ => false,
        }
    }

    /// Queues the link ping and the beacons that are due, and forgets filters that nobody subscribes to.
    pub(crate) fn ping(&self) {
        let mut state = self.lock();
        let QueueState {
            filters,
            queue,
            bytes,
            ..
        } = &mut *state;
        let mut push = |message: zmq::Message| {
            *bytes += message.len();
            queue.push_back(Outgoing::Whole(message));
        };
        push(publication_wire::link_ping(self.incarnation));
        filters.retain(|key, filter| {
            filter.quiet = filter.quiet.saturating_add(1);
            if filter.subscriptions > 0 && BEACONS.contains(&filter.quiet) {
                push(publication_wire::beacon(
                    key,
                    self.incarnation,
                    filter.number,
                ));
            }
            filter.subscriptions > 0 || filter.quiet < FORGET
        });
    }

    /// Takes no more publications; those that it has are still sent.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.room.notify_waiters();
    }
}

/// A queue that closes when its task ends, however that ends.
pub(crate) struct OpenPublishQueue(pub(crate) Arc<PublishQueue>);

impl Deref for OpenPublishQueue {
    type Target = PublishQueue;
    fn deref(&self) -> &PublishQueue {
        &self.0
    }
}

impl Drop for OpenPublishQueue {
    fn drop(&mut self) {
        self.0.close();
    }
}
