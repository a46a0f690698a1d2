//! The subscription of a user who gets no events: it yields a gap from time to time, after which the store is read.
//!
//! The event bus tells of everybody's jobs, so the access socket does not have it.

use std::time::Duration;

use async_trait::async_trait;
use saline_protocol::transport::{Backoff, Context, Delivery, Instant, Lost, Subscriber};

/// The first and the longest time between two gaps.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Yields gaps, ever further apart.
#[derive(Debug)]
pub(crate) struct StorePolls {
    context: Context,
    backoff: Backoff,
    due: Option<Instant>,
}

impl StorePolls {
    pub(crate) fn new(context: Context) -> Self {
        Self {
            context,
            backoff: Backoff::new(INTERVALS.0, INTERVALS.1),
            due: None,
        }
    }
}

#[async_trait]
impl Subscriber for StorePolls {
    async fn next(&mut self) -> Option<Delivery> {
        let clock = self.context.clock;
        // Kept, so that a future that was dropped begins no new interval.
        let due = match self.due {
            Some(due) => due,
            None => *self.due.insert(clock.after(self.backoff.next_delay())),
        };
        tokio::select! {
            biased;
            () = self.context.cancel.cancelled() => None,
            () = clock.until(due) => {
                self.due = None;
                Some(Delivery::Lagged(Lost::Unknown))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn gaps_come_until_the_client_ends() {
        let context = Context::default();
        let mut polls = StorePolls::new(context.clone());
        let begun = context.clock.now();
        for _ in 0..20 {
            let gap = polls.next().await;
            assert_eq!(gap, Some(Delivery::Lagged(Lost::Unknown)));
        }
        let passed = context.clock.now().saturating_duration_since(begun);
        assert!(passed < INTERVALS.1 * 21, "{passed:?}");
        assert!(passed > INTERVALS.1 * 4, "{passed:?}");
        context.cancel.cancel();
        assert_eq!(polls.next().await, None);
    }
}
