//! The subscription of a user who gets no events: it yields a gap from time to time, after which the store is read.

use std::time::Duration;

use async_trait::async_trait;
use saline_protocol::transport::{Backoff, Clock, Delivery, Instant, Lost, Subscriber};

/// The first and the longest time between two gaps.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Yields gaps, ever further apart. It has no end: the store cannot be read any more when the client has been shut down.
#[derive(Debug)]
pub(crate) struct StorePolls {
    clock: Clock,
    backoff: Backoff,
    due: Option<Instant>,
}

impl StorePolls {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            backoff: Backoff::new(INTERVALS.0, INTERVALS.1),
            due: None,
        }
    }
}

#[async_trait]
impl Subscriber for StorePolls {
    async fn next(&mut self) -> Option<Delivery> {
        // Kept, so that a future that was dropped begins no new interval.
        let due = match self.due {
            Some(due) => due,
            None => *self.due.insert(self.clock.after(self.backoff.next_delay())),
        };
        self.clock.until(due).await;
        self.due = None;
        Some(Delivery::Lagged(Lost::Unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn gaps_come_ever_further_apart() {
        let mut polls = StorePolls::new(Clock);
        let begun = Clock.now();
        for _ in 0..20 {
            let gap = polls.next().await;
            assert_eq!(gap, Some(Delivery::Lagged(Lost::Unknown)));
        }
        let passed = Clock.now().saturating_duration_since(begun);
        assert!(passed < INTERVALS.1 * 21, "{passed:?}");
        assert!(passed > INTERVALS.1 * 4, "{passed:?}");
    }
}
