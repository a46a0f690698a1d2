//! How far a publisher may be ahead of the slowest subscriber, and what the subscribers had.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::mpsc;

/// Messages that are published at a stretch, and told when every subscriber had them.
pub(crate) const STEP: u64 = 128;

/// Steps that a publisher may be ahead: 512 messages, which fit the queues of every backend.
pub(crate) const STEPS: u64 = 4;

/// Counts what all subscribers had, and tells each step that the slowest has made.
#[derive(Debug)]
pub(crate) struct FlowLimit {
    subscribers: usize,
    /// How many subscribers made a step, for each of those that may be under way.
    made: [AtomicUsize; STEPS as usize],
    delivered: AtomicU64,
    steps: mpsc::Sender<()>,
}

impl FlowLimit {
    /// Creates the limit for this many subscribers, and the receiver of steps.
    pub(crate) fn new(subscribers: usize) -> (Arc<Self>, mpsc::Receiver<()>) {
        // No more steps are under way than the publisher is ahead.
        let (steps, made) = mpsc::channel(4 * STEPS as usize);
        let limit = Self {
            subscribers,
            made: [const { AtomicUsize::new(0) }; STEPS as usize],
            delivered: AtomicU64::new(0),
            steps,
        };
        (Arc::new(limit), made)
    }

    /// Returns the counter of one of the subscribers.
    pub(crate) fn subscriber(self: &Arc<Self>) -> SubscriberCount {
        SubscriberCount {
            limit: Arc::clone(self),
            count: 0,
            delivered: 0,
            expected: None,
        }
    }

    /// Delivered so far, in the steps that were made.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Acquire)
    }
}

/// One subscriber's count.
#[derive(Debug)]
pub(crate) struct SubscriberCount {
    limit: Arc<FlowLimit>,
    /// Delivered and lost.
    count: u64,
    /// Delivered and not yet in the sum.
    delivered: u64,
    /// The number that the next message carries, where messages carry one.
    expected: Option<u64>,
}

impl SubscriberCount {
    /// Counts `more` messages that arrived.
    pub(crate) fn had(&mut self, more: u64) {
        self.delivered += more;
        self.counted(more);
    }

    /// A message with this number came; what is missing before it was lost.
    pub(crate) fn numbered(&mut self, number: u64) {
        let expected = self.expected.unwrap_or(0);
        if number > expected {
            self.lost(number - expected);
        }
        self.expected = Some(number + 1);
        self.had(1);
    }

    /// Counts `more` messages that were lost.
    pub(crate) fn lost(&mut self, more: u64) {
        self.counted(more);
    }

    fn counted(&mut self, more: u64) {
        let before = self.count / STEP;
        self.count += more;
        for step in before..self.count / STEP {
            let delivered = std::mem::take(&mut self.delivered);
            self.limit.delivered.fetch_add(delivered, Ordering::Release);
            let made = &self.limit.made[(step % STEPS) as usize];
            if made.fetch_add(1, Ordering::AcqRel) + 1 == self.limit.subscribers {
                // Nobody makes the step that comes in this place before this one is told.
                made.store(0, Ordering::Release);
                // Whoever took the steps has gone when the measurement is over.
                let _ = self.limit.steps.try_send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_told_when_the_slowest_has_made_it() {
        let (limit, mut made) = FlowLimit::new(2);
        let (mut one, mut other) = (limit.subscriber(), limit.subscriber());
        one.had(2 * STEP);
        assert!(made.try_recv().is_err());
        other.had(STEP - 1);
        assert!(made.try_recv().is_err());
        other.lost(1);
        assert!(made.try_recv().is_ok());
        assert!(made.try_recv().is_err());
        assert_eq!(limit.delivered(), 3 * STEP - 1);
    }

    #[test]
    fn missing_numbers_are_lost_messages() {
        let (limit, _made) = FlowLimit::new(1);
        let mut one = limit.subscriber();
        for number in (0..STEP).filter(|number| number % 10 != 5) {
            one.numbered(number);
        }
        assert_eq!(limit.delivered(), STEP - 13);
    }
}
