//! The bounded queue in front of one subscriber.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use saline_protocol::transport::{Delivery, Limits, Lost};

/// Credit returns after 64 messages or 1/16 of the queue, whichever is less.
const CREDIT_BATCH: usize = 64;
const CREDIT_SHARE: usize = 16;

/// Queues deliveries for one subscriber within [`Limits::subscriber_queue_messages`] and
/// [`Limits::subscriber_queue_bytes`]. What does not fit is dropped, counted, and told to the
/// subscriber as one [`Delivery::Lagged`] at the place of the loss. A message larger than the whole
/// queue fits when it is empty. For every backend: bounding, counting and waking are written once.
///
/// Room is given back in steps of up to 64 messages or of a batch, or when everything was read.
///
/// ```
/// use saline_engine::delivery_queue;
/// use saline_protocol::transport::{Delivery, Limits, Lost, Topic};
///
/// let mut limits = Limits::default();
/// limits.subscriber_queue_messages = 2;
/// let (sender, mut receiver) = delivery_queue(&limits);
/// let topic: Topic = "job/all".parse().unwrap();
/// let message = |text: &'static str| Delivery::Message {
///     topic: topic.clone(),
///     payload: text.into(),
/// };
///
/// // Three came in together, and one of them had no room.
/// assert_eq!(sender.push_all(["a", "b", "c"].map(message)), 1);
/// assert_eq!(receiver.try_next(), Some(message("a")));
/// assert_eq!(receiver.try_next(), Some(message("b")));
/// assert_eq!(receiver.try_next(), Some(Delivery::Lagged(Lost::Messages(1))));
/// ```
pub fn delivery_queue(limits: &Limits) -> (DeliverySender, DeliveryReceiver) {
    let messages = limits.subscriber_queue_messages;
    let shared = Arc::new(SharedQueue {
        state: Mutex::new(QueueState::default()),
        wake: Notify::new(),
        messages,
        bytes: limits.subscriber_queue_bytes,
        credit_after: (messages / CREDIT_SHARE).clamp(1, CREDIT_BATCH),
    });
    (
        DeliverySender(Arc::clone(&shared)),
        DeliveryReceiver {
            shared,
            taken: VecDeque::new(),
            read: Read::default(),
        },
    )
}

#[derive(Debug, Default)]
struct QueueState {
    queue: VecDeque<Delivery>,
    /// Messages whose room the receiver has not given back, those that it has taken among them.
    messages: usize,
    bytes: usize,
    /// The receiver waits.
    waiting: bool,
    sender_gone: bool,
    receiver_gone: bool,
}

impl QueueState {
    /// Adds a loss where the queue ends, joined with the loss that already stands there.
    fn push_lost(&mut self, lost: Lost) {
        match (self.queue.back_mut(), lost) {
            (Some(Delivery::Lagged(Lost::Messages(n))), Lost::Messages(more)) => *n += more,
            (Some(Delivery::Lagged(last)), Lost::Unknown) => *last = Lost::Unknown,
            (Some(Delivery::Lagged(Lost::Unknown)), _) => {}
            _ => self.queue.push_back(Delivery::Lagged(lost)),
        }
    }

    /// Adds a change of the link. Links change at the pace of the backoff; a pair that nobody has
    /// read yet says nothing more than the last one, so that a reader that never reads costs no
    /// memory.
    fn push_link(&mut self, link: Delivery, most: usize) {
        let queued = self.queue.len();
        let repeats = queued >= 2
            && queued > most
            && self.queue[queued - 1] != link
            && self.queue[queued - 2] == link
            && matches!(
                self.queue[queued - 1],
                Delivery::Connected | Delivery::Disconnected
            );
        if repeats {
            self.queue.pop_back();
        } else {
            self.queue.push_back(link);
        }
    }
}

#[derive(Debug)]
struct SharedQueue {
    state: Mutex<QueueState>,
    wake: Notify,
    messages: usize,
    bytes: usize,
    credit_after: usize,
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // The state is consistent after every statement, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The backend's end of the queue. Dropping it ends the subscriber once it has read what is queued.
#[derive(Debug)]
pub struct DeliverySender(Arc<SharedQueue>);

impl DeliverySender {
    /// Queues one delivery without waiting. Returns how many messages were dropped: one, when a
    /// message did not fit, else none. Count them as [`Metric::Lost`](saline_protocol::transport::Metric::Lost).
    ///
    /// Link events and losses always fit: losses that follow each other become one, and so do changes
    /// of the link that nobody has read, so that a subscriber that never reads costs no memory.
    pub fn push(&self, delivery: Delivery) -> u64 {
        self.push_all([delivery])
    }

    /// Queues what came in together, in its order, and wakes the subscriber once. Returns how many
    /// messages were dropped. For a read that brought several: one lock and one wake instead of many.
    ///
    /// `deliveries` is run under the queue's lock: it must neither wait nor touch this queue.
    pub fn push_all(&self, deliveries: impl IntoIterator<Item = Delivery>) -> u64 {
        let shared = &*self.0;
        let mut state = shared.lock();
        if state.receiver_gone {
            return 0;
        }
        let mut dropped = 0;
        let deliveries = deliveries.into_iter();
        let room = shared.messages.saturating_sub(state.messages);
        state.queue.reserve(deliveries.size_hint().0.min(room));
        for delivery in deliveries {
            match delivery {
                Delivery::Message { topic, payload } => {
                    let size = payload.len();
                    let full = state.messages >= shared.messages
                        || (state.messages > 0 && state.bytes + size > shared.bytes);
                    if full {
                        state.push_lost(Lost::Messages(1));
                        dropped += 1;
                    } else {
                        state.messages += 1;
                        state.bytes += size;
                        state.queue.push_back(Delivery::Message { topic, payload });
                    }
                }
                Delivery::Lagged(lost) => state.push_lost(lost),
                link => state.push_link(link, shared.messages),
            }
        }
        let waiting = !state.queue.is_empty() && std::mem::take(&mut state.waiting);
        drop(state);
        if waiting {
            shared.wake.notify_one();
        }
        dropped
    }

    /// Whether the subscriber has been dropped. What is pushed then goes nowhere, and is not counted.
    pub fn is_closed(&self) -> bool {
        self.0.lock().receiver_gone
    }
}

impl Drop for DeliverySender {
    fn drop(&mut self) {
        self.0.lock().sender_gone = true;
        self.0.wake.notify_one();
    }
}

/// The subscriber's end of the queue.
#[derive(Debug)]
pub struct DeliveryReceiver {
    shared: Arc<SharedQueue>,
    /// The queue as it was, taken as a whole, so that both ends rarely meet at the lock.
    taken: VecDeque<Delivery>,
    read: Read,
}

/// Messages that were read since that was last told.
#[derive(Debug, Default)]
struct Read {
    messages: usize,
    bytes: usize,
}

/// The next step of a receiver that has read what it took.
enum More {
    Taken,
    Nothing,
    End,
}

impl DeliveryReceiver {
    /// Returns what comes next; `None` when the backend's end is gone and everything has been read.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            if let Some(delivery) = self.pop() {
                return Some(delivery);
            }
            match self.take(true) {
                More::Taken => {}
                More::Nothing => self.shared.wake.notified().await,
                More::End => return None,
            }
        }
    }

    /// Takes up to `most` deliveries, at least one: waits for the first and adds what is there already.
    /// Returns how many were added to `into`; 0 when the backend's end is gone and everything was read.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next_batch(&mut self, into: &mut Vec<Delivery>, most: usize) -> usize {
        let (before, most) = (into.len(), most.max(1));
        loop {
            while into.len() - before < most && self.has_taken() {
                self.pop_many(most - (into.len() - before), into);
            }
            if into.len() > before {
                return into.len() - before;
            }
            match self.take(true) {
                More::Taken => {}
                More::Nothing => self.shared.wake.notified().await,
                More::End => return 0,
            }
        }
    }

    /// Returns whether there is something to read, and takes what is queued for that if necessary.
    #[inline]
    fn has_taken(&mut self) -> bool {
        !self.taken.is_empty() || matches!(self.take(false), More::Taken)
    }

    /// Returns what comes next, if it is there already. `None` says nothing about the end: ask
    /// [`next`](Self::next).
    #[inline]
    pub fn try_next(&mut self) -> Option<Delivery> {
        self.has_taken();
        self.pop()
    }

    #[inline]
    fn pop(&mut self) -> Option<Delivery> {
        let delivery = self.taken.pop_front()?;
        self.note_read(std::slice::from_ref(&delivery));
        Some(delivery)
    }

    /// Moves up to `most` of what it has taken into `into`.
    fn pop_many(&mut self, most: usize, into: &mut Vec<Delivery>) {
        let before = into.len();
        into.extend(self.taken.drain(..most.min(self.taken.len())));
        self.note_read(&into[before..]);
    }

    /// Takes note of what was read, and gives its room back if it is enough.
    #[inline]
    fn note_read(&mut self, deliveries: &[Delivery]) {
        for delivery in deliveries {
            if let Delivery::Message { payload, .. } = delivery {
                self.read.messages += 1;
                self.read.bytes += payload.len();
            }
        }
        let is_enough = self.taken.is_empty() || self.read.messages >= self.shared.credit_after;
        if is_enough && self.read.messages > 0 {
            let read = std::mem::take(&mut self.read);
            let mut state = self.shared.lock();
            state.messages -= read.messages;
            state.bytes -= read.bytes;
        }
    }

    /// Takes what is queued, when everything before is read.
    fn take(&mut self, waits: bool) -> More {
        let mut state = self.shared.lock();
        if state.queue.is_empty() {
            state.waiting = waits;
            return match state.sender_gone {
                true => More::End,
                false => More::Nothing,
            };
        }

        std::mem::swap(&mut self.taken, &mut state.queue);
        More::Taken
    }
}

impl Drop for DeliveryReceiver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.receiver_gone = true;
        state.queue = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use saline_protocol::transport::Topic;

    fn message(size: usize) -> Delivery {
        Delivery::Message {
            topic: Topic::parse("t").unwrap(),
            payload: Bytes::from(vec![0; size]),
        }
    }

    fn limits(messages: usize, bytes: usize) -> Limits {
        let mut limits = Limits::default();
        limits.subscriber_queue_messages = messages;
        limits.subscriber_queue_bytes = bytes;
        limits
    }

    #[tokio::test]
    async fn a_loss_is_told_where_it_happened_and_counted_exactly() {
        let (sender, mut receiver) = delivery_queue(&limits(2, 1000));
        assert_eq!((0..5).map(|_| sender.push(message(1))).sum::<u64>(), 3);
        assert_eq!(receiver.next().await, Some(message(1)));
        assert_eq!(sender.push(message(2)), 0);
        assert_eq!(receiver.next().await, Some(message(1)));
        assert_eq!(
            receiver.next().await,
            Some(Delivery::Lagged(Lost::Messages(3)))
        );
        assert_eq!(receiver.next().await, Some(message(2)));
        drop(sender);
        assert_eq!(receiver.next().await, None);
    }

    #[tokio::test]
    async fn bytes_are_bounded_but_one_large_message_passes_an_empty_queue() {
        let (sender, mut receiver) = delivery_queue(&limits(10, 100));
        assert_eq!(sender.push(message(500)), 0);
        assert_eq!(sender.push(message(1)), 1);
        assert_eq!(receiver.next().await, Some(message(500)));
        assert_eq!(
            receiver.next().await,
            Some(Delivery::Lagged(Lost::Messages(1)))
        );
    }

    #[test]
    fn a_reader_that_never_reads_bounds_the_link_events_too() {
        let (sender, receiver) = delivery_queue(&limits(4, 100));
        for _ in 0..1000 {
            sender.push(Delivery::Disconnected);
            sender.push(Delivery::Connected);
        }
        assert!(receiver.shared.lock().queue.len() <= 6);
    }

    #[tokio::test]
    async fn what_is_read_is_told_now_and_then() {
        let (sender, mut receiver) = delivery_queue(&limits(64, 1000));
        assert_eq!(sender.push_all((0..64).map(|_| message(1))), 0);
        assert_eq!(receiver.next().await, Some(message(1)));
        // It is told after every fourth.
        assert_eq!(sender.push(message(2)), 1);
        for _ in 0..3 {
            assert_eq!(receiver.try_next(), Some(message(1)));
        }
        assert_eq!(sender.push_all((0..5).map(|_| message(3))), 1);
        for _ in 0..60 {
            assert_eq!(receiver.try_next(), Some(message(1)));
        }
        let lost = Delivery::Lagged(Lost::Messages(1));
        assert_eq!(receiver.try_next().as_ref(), Some(&lost));
        for _ in 0..4 {
            assert_eq!(receiver.try_next(), Some(message(3)));
        }
        assert_eq!(receiver.try_next().as_ref(), Some(&lost));
        assert_eq!(receiver.try_next(), None);
    }

    #[tokio::test]
    async fn a_reader_that_looked_and_then_waits_is_woken() {
        let (sender, mut receiver) = delivery_queue(&limits(4, 100));
        assert_eq!(receiver.try_next(), None);
        let (read, ()) = tokio::join!(receiver.next(), async {
            sender.push(message(1));
        });
        assert_eq!(read, Some(message(1)));
        let (read, ()) = tokio::join!(receiver.next(), async { drop(sender) });
        assert_eq!(read, None);
    }
}
