//! Rate limit for the events and log lines that a minion causes, accepted or not.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use saline_messages::MinionId;
use saline_protocol::transport::{Clock, Instant};

/// One report for each id in this time, unless something has changed.
const EVERY: Duration = Duration::from_secs(1);

/// The largest number of ids that are remembered.
const MAX_IDS: usize = 10_000;

/// Allows one report for each id in a second.
#[derive(Debug)]
pub struct ReportLimiter {
    clock: Clock,
    last: Mutex<HashMap<MinionId, Instant>>,
}

impl ReportLimiter {
    /// Creates a limiter that has seen no id yet.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            last: Mutex::default(),
        }
    }

    /// Whether `id` may be reported now; if so, the report counts.
    pub fn allows(&self, id: &MinionId) -> bool {
        let now = self.clock.now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.get(id).is_some_and(|then| now - *then < EVERY) {
            return false;
        }
        if last.len() >= MAX_IDS {
            last.retain(|_, then| now - *then < EVERY);
        }
        // This many ids within a second are a flood: nothing more is reported.
        if last.len() >= MAX_IDS {
            return false;
        }
        last.insert(id.clone(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_event_an_id_and_second() {
        let limiter = ReportLimiter::new(Clock);
        let (a, b) = (MinionId::parse("a").unwrap(), MinionId::parse("b").unwrap());
        assert!(limiter.allows(&a));
        assert!(limiter.allows(&b));
        assert!(!limiter.allows(&a));
        Clock.pause(EVERY).await;
        assert!(limiter.allows(&a));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_ids_is_met_with_silence_and_bounded() {
        let limiter = ReportLimiter::new(Clock);
        let allowed = (0..2 * MAX_IDS)
            .filter(|n| limiter.allows(&MinionId::parse(&format!("m{n}")).unwrap()))
            .count();
        assert_eq!(allowed, MAX_IDS);
        Clock.pause(EVERY).await;
        assert!(limiter.allows(&MinionId::parse("another").unwrap()));
        assert_eq!(limiter.last.lock().unwrap().len(), 1);
    }
}
