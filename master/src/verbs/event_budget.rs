//! What an accepted minion, and every `saline-call` beside it, may have the master fire and store in a second: two
//! token buckets for each minion, one of events and one of bytes. A stored call counts as one event.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use saline_messages::{MinionEvent, MinionEvents, MinionId};
use saline_protocol::transport::{Clock, Instant};

use crate::token_bucket::{MAX_MINIONS, Rate, TokenBucket};

/// For how many seconds a minion that was silent may fire at once.
const BURST_SECONDS: f64 = 10.0;

/// The rate at which one minion may fire events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRates {
    /// The number of events; none for no bound.
    pub events: Option<u64>,
    /// The bytes of data in a second; none for no bound.
    pub bytes: Option<u64>,
}

/// The events that each minion may still fire.
#[derive(Debug)]
pub(crate) struct EventBudget {
    clock: Clock,
    buckets: Mutex<HashMap<MinionId, Buckets>>,
}

/// The buckets of one minion: of events and of bytes. None where there is no bound.
#[derive(Debug, Clone, Copy)]
struct Buckets {
    events: Option<TokenBucket>,
    bytes: Option<TokenBucket>,
}

/// Returns how a bucket of so many tokens a second fills.
fn rate(per_second: u64) -> Rate {
    let per_second = per_second as f64;
    Rate {
        per_second,
        burst: per_second * BURST_SECONDS,
    }
}

/// Refills a bucket, and returns the delay in seconds until it has a token; 0 where there is no bound.
fn delay(bucket: &mut Option<TokenBucket>, per_second: Option<u64>, now: Instant) -> f64 {
    let Some(rate) = per_second.map(rate) else {
        *bucket = None;
        return 0.0;
    };
    // Made now if there was no bound before.
    let bucket = bucket.get_or_insert_with(|| TokenBucket::full(rate, now));
    match bucket.refill(rate, now) {
        tokens if tokens <= 0.0 => (1.0 - tokens) / rate.per_second,
        _ => 0.0,
    }
}

impl Buckets {
    fn full(rates: EventRates, now: Instant) -> Self {
        let full = |per_second| TokenBucket::full(rate(per_second), now);
        Self {
            events: rates.events.map(full),
            bytes: rates.bytes.map(full),
        }
    }

    fn is_full(&mut self, rates: EventRates, now: Instant) -> bool {
        let full = |bucket: &mut Option<TokenBucket>, per_second: Option<u64>| match (
            bucket,
            per_second.map(rate),
        ) {
            (Some(bucket), Some(rate)) => bucket.refill(rate, now) >= rate.burst,
            _ => true,
        };
        full(&mut self.events, rates.events) && full(&mut self.bytes, rates.bytes)
    }
}

impl EventBudget {
    /// Creates a budget in which every bucket is full.
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            buckets: Mutex::default(),
        }
    }

    /// Takes these events from the budget of the minion, which fills at `rates` now.
    ///
    /// # Errors
    /// When nothing is left: the delay after which the minion may fire again.
    pub(crate) fn take(
        &self,
        rates: EventRates,
        id: &MinionId,
        events: &MinionEvents,
    ) -> Result<(), Duration> {
        let size = |event: &MinionEvent| event.tag.len() + event.data.as_bytes().len();
        let bytes = events.events.iter().map(size).sum();
        self.take_all(rates, id, events.events.len(), bytes)
    }

    /// Takes one stored call of so many bytes, which counts as one event.
    ///
    /// # Errors
    /// When nothing is left: the delay after which the minion may go on.
    pub(crate) fn take_one(
        &self,
        rates: EventRates,
        id: &MinionId,
        bytes: usize,
    ) -> Result<(), Duration> {
        self.take_all(rates, id, 1, bytes)
    }

    fn take_all(
        &self,
        rates: EventRates,
        id: &MinionId,
        count: usize,
        bytes: usize,
    ) -> Result<(), Duration> {
        let now = self.clock.now();
        let mut all = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_MINIONS && !all.contains_key(id) {
            all.retain(|_, buckets| !buckets.is_full(rates, now));
        }
        let buckets = all
            .entry(id.clone())
            .or_insert_with(|| Buckets::full(rates, now));
        let wait = delay(&mut buckets.events, rates.events, now);
        let wait = wait.max(delay(&mut buckets.bytes, rates.bytes, now));
        if wait > 0.0 {
            return Err(Duration::from_secs_f64(wait));
        }
        // What is above the budget is owed: so a request is never too large to be taken.
        if let Some(bucket) = &mut buckets.events {
            bucket.take(count as f64);
        }
        if let Some(bucket) = &mut buckets.bytes {
            bucket.take(bytes as f64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_data::Packed;
    use saline_messages::StartId;

    fn events(count: usize, size: usize) -> MinionEvents {
        let event = MinionEvent {
            tag: String::new(),
            data: Packed::from_bytes(vec![0; size]),
        };
        MinionEvents {
            start: StartId([1; 16]),
            first: 1,
            events: vec![event; count],
        }
    }

    fn id(text: &str) -> MinionId {
        MinionId::parse(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_minion_fires_at_its_rate_and_does_not_disturb_others() {
        let rates = EventRates {
            events: Some(100),
            bytes: None,
        };
        let budget = EventBudget::new(Clock);
        let fired = |name: &str| {
            let taken =
                (0..100).take_while(|_| budget.take(rates, &id(name), &events(100, 0)).is_ok());
            taken.count()
        };
        assert_eq!(fired("a"), 10, "what was saved");
        assert_eq!(fired("b"), 10);
        let delay = budget.take(rates, &id("a"), &events(1, 0)).unwrap_err();
        Clock.pause(delay).await;
        assert_eq!(fired("a"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_count_as_well() {
        let rates = EventRates {
            events: None,
            bytes: Some(1_000),
        };
        let budget = EventBudget::new(Clock);
        assert!(
            budget.take(rates, &id("a"), &events(3, 20_000)).is_ok(),
            "once"
        );
        let delay = budget.take(rates, &id("a"), &events(1, 0)).unwrap_err();
        assert!(delay > Duration::from_secs(50), "{delay:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_is_bounded() {
        let rates = EventRates {
            events: Some(10),
            bytes: Some(10),
        };
        let budget = EventBudget::new(Clock);
        for number in 0..MAX_MINIONS + 10 {
            Clock.pause(Duration::from_millis(1)).await;
            let _ = budget.take(rates, &id(&format!("m{number}")), &events(0, 0));
        }
        assert!(budget.buckets.lock().unwrap().len() < MAX_MINIONS);
    }
}
