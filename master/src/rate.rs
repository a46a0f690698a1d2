//! How often a stranger makes the master speak of it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use saline_protocol::message::MinionId;
use saline_protocol::transport::{Clock, Instant};

/// Once in that time an event about one id, unless something has changed.
const EVERY: Duration = Duration::from_secs(1);

/// Ids that are remembered. Beyond that the oldest ones are forgotten, and may speak again.
const MOST: usize = 10_000;

/// Lets one event an id through in a while.
#[derive(Debug)]
pub struct RatePerId {
    clock: Clock,
    last: Mutex<HashMap<MinionId, Instant>>,
}

impl RatePerId {
    /// Nobody has spoken yet.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            last: Mutex::default(),
        }
    }

    /// Whether `id` may be spoken of now.
    pub fn allows(&self, id: &MinionId) -> bool {
        let now = self.clock.now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.get(id).is_some_and(|then| now - *then < EVERY) {
            return false;
        }
        if last.len() >= MOST {
            last.retain(|_, then| now - *then < EVERY);
        }
        // All of them within a second: that is a flood, and silence is the answer to it.
        if last.len() >= MOST {
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
        let rate = RatePerId::new(Clock);
        let (a, b) = (MinionId::parse("a").unwrap(), MinionId::parse("b").unwrap());
        assert!(rate.allows(&a));
        assert!(rate.allows(&b));
        assert!(!rate.allows(&a));
        Clock.pause(EVERY).await;
        assert!(rate.allows(&a));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_ids_is_met_with_silence_and_bounded() {
        let rate = RatePerId::new(Clock);
        let allowed = (0..2 * MOST)
            .filter(|n| rate.allows(&MinionId::parse(&format!("m{n}")).unwrap()))
            .count();
        assert_eq!(allowed, MOST);
        Clock.pause(EVERY).await;
        assert!(rate.allows(&MinionId::parse("another").unwrap()));
        assert_eq!(rate.last.lock().unwrap().len(), 1);
    }
}
