//! The bounded queue in front of one subscriber.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Delivery, Limits, Lost};

/// Queues deliveries for one subscriber within [`Limits::subscriber_queue_messages`] and
/// [`Limits::subscriber_queue_bytes`]. What does not fit is dropped, counted, and told to the
/// subscriber as one [`Delivery::Lagged`] at the place of the loss. For every backend: bounding,
/// counting and waking are written once.
pub fn delivery_queue(limits: &Limits) -> (DeliverySender, DeliveryReceiver) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State::default()),
        wake: Notify::new(),
        messages: limits.subscriber_queue_messages,
        bytes: limits.subscriber_queue_bytes,
    });
    (
        DeliverySender(Arc::clone(&shared)),
        DeliveryReceiver(shared),
    )
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Delivery>,
    messages: usize,
    bytes: usize,
    sender_gone: bool,
    receiver_gone: bool,
}

impl State {
    /// Adds a loss where the queue ends, joined with the loss that already stands there.
    fn push_lost(&mut self, lost: Lost) {
        match (self.queue.back_mut(), lost) {
            (Some(Delivery::Lagged(Lost::Messages(n))), Lost::Messages(more)) => *n += more,
            (Some(Delivery::Lagged(last)), Lost::Unknown) => *last = Lost::Unknown,
            (Some(Delivery::Lagged(Lost::Unknown)), _) => {}
            _ => self.queue.push_back(Delivery::Lagged(lost)),
        }
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: Notify,
    messages: usize,
    bytes: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every statement, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The backend's end of the queue. Dropping it ends the subscriber once it has read what is queued.
#[derive(Debug)]
pub struct DeliverySender(Arc<Shared>);

impl DeliverySender {
    /// Queues one delivery without waiting. Returns how many messages were dropped: one, when a
    /// message did not fit, else none.
    pub fn push(&self, delivery: Delivery) -> u64 {
        let mut state = self.0.lock();
        if state.receiver_gone {
            return 0;
        }
        let mut dropped = 0;
        match delivery {
            Delivery::Message { topic, payload } => {
                let size = payload.len();
                let full = state.messages >= self.0.messages
                    || (state.messages > 0 && state.bytes + size > self.0.bytes);
                if full {
                    state.push_lost(Lost::Messages(1));
                    dropped = 1;
                } else {
                    state.messages += 1;
                    state.bytes += size;
                    state.queue.push_back(Delivery::Message { topic, payload });
                }
            }
            Delivery::Lagged(lost) => state.push_lost(lost),
            // Links change at the pace of the backoff; a pair that nobody has read yet says nothing
            // more than the last one, so that a reader that never reads costs no memory.
            link => {
                let queued = state.queue.len();
                if queued >= 2
                    && state.queue[queued - 1] != link
                    && state.queue[queued - 2] == link
                    && matches!(
                        state.queue[queued - 1],
                        Delivery::Connected | Delivery::Disconnected
                    )
                    && queued > self.0.messages
                {
                    state.queue.pop_back();
                } else {
                    state.queue.push_back(link);
                }
            }
        }
        drop(state);
        self.0.wake.notify_one();
        dropped
    }

    /// Whether the subscriber has been dropped.
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
pub struct DeliveryReceiver(Arc<Shared>);

impl DeliveryReceiver {
    /// What comes next; `None` when the backend's end is gone and everything has been read.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            {
                let mut state = self.0.lock();
                if let Some(delivery) = state.queue.pop_front() {
                    if let Delivery::Message { payload, .. } = &delivery {
                        state.messages -= 1;
                        state.bytes -= payload.len();
                    }
                    return Some(delivery);
                }
                if state.sender_gone {
                    return None;
                }
            }
            self.0.wake.notified().await;
        }
    }
}

impl Drop for DeliveryReceiver {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.receiver_gone = true;
        state.queue = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Topic;
    use bytes::Bytes;

    fn message(size: usize) -> Delivery {
        Delivery::Message {
            topic: Topic::parse("t").unwrap(),
            payload: Bytes::from(vec![0; size]),
        }
    }

    fn limits(messages: usize, bytes: usize) -> Limits {
        Limits {
            subscriber_queue_messages: messages,
            subscriber_queue_bytes: bytes,
            ..Limits::default()
        }
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
        assert!(receiver.0.lock().queue.len() <= 6);
    }
}
