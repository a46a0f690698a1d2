//! How many warnings about keys there may be: strangers can present new ones as long as they like.

use std::sync::{Mutex, PoisonError};

use saline_protocol::transport::Clock;

use crate::bounds::{Rate, TokenBucket};

/// A thousand at once, as when a fleet is set up, and one a second.
const WARNINGS: Rate = Rate {
    per_second: 1.0,
    burst: 1000.0,
};

/// The warnings about keys that there may still be.
#[derive(Debug)]
pub struct KeyWarnings {
    clock: Clock,
    state: Mutex<Budget>,
}

#[derive(Debug)]
struct Budget {
    bucket: TokenBucket,
    /// Whether it was told that there are no more warnings for now.
    has_ended: bool,
}

impl KeyWarnings {
    /// Creates a full budget.
    pub fn new(clock: Clock) -> Self {
        let bucket = TokenBucket::full(WARNINGS, clock.now());
        Self {
            clock,
            state: Mutex::new(Budget {
                bucket,
                has_ended: false,
            }),
        }
    }

    /// Takes one warning from the budget. Returns false when there is none left, and says so in the log once.
    pub fn take(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.bucket.take_one(WARNINGS, self.clock.now()).is_ok() {
            state.has_ended = false;
            return true;
        }
        if !std::mem::replace(&mut state.has_ended, true) {
            tracing::warn!(
                "new keys come in great numbers: for now they are logged at log_level info alone; `saline-key -L` lists \
                 those that are kept"
            );
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn strangers_do_not_fill_the_log() {
        let warnings = KeyWarnings::new(Clock);
        let taken = || (0..5000).filter(|_| warnings.take()).count();
        assert_eq!(taken(), 1000);
        assert_eq!(taken(), 0);
        Clock.pause(Duration::from_secs(5)).await;
        assert_eq!(taken(), 5);
    }
}
