//! A token bucket: what somebody may ask for in a second, and at once after a silence.

use saline_protocol::transport::Instant;

/// What one source or one minion may still ask for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenBucket {
    /// The tokens at `at`. Below zero when more was taken than there was.
    tokens: f64,
    at: Instant,
}

/// How a bucket fills.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    /// The tokens that come back in a second.
    pub(crate) per_second: f64,
    /// The most that a bucket holds.
    pub(crate) burst: f64,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub(crate) fn full(rate: Rate, now: Instant) -> Self {
        Self {
            tokens: rate.burst,
            at: now,
        }
    }

    /// Returns the tokens at `now`, after what has come back since the last call.
    pub(crate) fn refill(&mut self, rate: Rate, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * rate.per_second).min(rate.burst);
        self.at = now;
        self.tokens
    }

    /// Takes so many tokens, also more than there are.
    pub(crate) fn take(&mut self, tokens: f64) {
        self.tokens -= tokens;
    }

    /// Gives a token back.
    pub(crate) fn give_back(&mut self, rate: Rate) {
        self.tokens = (self.tokens + 1.0).min(rate.burst);
    }
}
