//! Token buckets: what somebody may ask for in a second, and at once after a silence.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_protocol::transport::{Clock, Instant};

/// The shortest time between two looks at all buckets of many keys.
const SWEEP: Duration = Duration::from_millis(250);

/// A token bucket: the budget of one source or one minion.
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

    /// Refills the bucket, and returns the delay after which there is a token; zero when there is something left.
    pub(crate) fn debt(&mut self, rate: Rate, now: Instant) -> Duration {
        match self.refill(rate, now) {
            tokens if tokens <= 0.0 => Duration::from_secs_f64((1.0 - tokens) / rate.per_second),
            _ => Duration::ZERO,
        }
    }

    /// Takes so many tokens, also more than there are.
    pub(crate) fn take(&mut self, tokens: f64) {
        self.tokens -= tokens;
    }

    /// Takes one token.
    ///
    /// # Errors
    /// When there is none: the delay after which there is one.
    pub(crate) fn take_one(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let tokens = self.refill(rate, now);
        if tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - tokens) / rate.per_second));
        }
        self.take(1.0);
        Ok(())
    }

    /// Gives a token back.
    fn give_back(&mut self, rate: Rate) {
        self.tokens = (self.tokens + 1.0).min(rate.burst);
    }
}

/// A bucket for each of many keys. Full buckets are forgotten, and keys beyond the bound share one bucket.
#[derive(Debug)]
pub struct TokenBuckets<K> {
    clock: Clock,
    rate: Rate,
    /// The largest number of keys that are told apart.
    keys_most: usize,
    buckets: Mutex<Buckets<K>>,
}

#[derive(Debug)]
struct Buckets<K> {
    by_key: HashMap<K, TokenBucket>,
    shared: TokenBucket,
    /// When full buckets may be looked for again, so that a flood of keys does not have all buckets looked at for each of
    /// its own.
    next_sweep: Instant,
    #[cfg(test)]
    sweeps: usize,
}

impl<K: Clone + Eq + Hash> TokenBuckets<K> {
    /// Creates full buckets.
    pub(crate) fn new(clock: Clock, rate: Rate, keys_most: usize) -> Self {
        Self {
            clock,
            rate,
            keys_most,
            buckets: Mutex::new(Buckets {
                by_key: HashMap::new(),
                shared: TokenBucket::full(rate, clock.now()),
                next_sweep: clock.now(),
                #[cfg(test)]
                sweeps: 0,
            }),
        }
    }

    /// Takes a token from the bucket of `key`.
    ///
    /// # Errors
    /// When there is none: the delay after which there is one.
    pub(crate) fn take(&self, key: &K) -> Result<(), Duration> {
        self.with_bucket(key, TokenBucket::take_one)
    }

    /// Takes so many tokens from the bucket of `key`, also more than there are: it is in debt then.
    ///
    /// # Errors
    /// When the bucket is empty or in debt: the delay after which there is a token.
    pub(crate) fn draw(&self, key: &K, tokens: f64) -> Result<(), Duration> {
        self.with_bucket(key, |bucket, rate, now| match bucket.debt(rate, now) {
            Duration::ZERO => {
                bucket.take(tokens);
                Ok(())
            }
            delay => Err(delay),
        })
    }

    fn with_bucket<T>(
        &self,
        key: &K,
        take: impl FnOnce(&mut TokenBucket, Rate, Instant) -> T,
    ) -> T {
        let (rate, now) = (self.rate, self.clock.now());
        let mut buckets = self.lock();
        let buckets = &mut *buckets;
        if let Some(bucket) = buckets.by_key.get_mut(key) {
            return take(bucket, rate, now);
        }
        if buckets.by_key.len() >= self.keys_most && now >= buckets.next_sweep {
            buckets.sweep(rate, now);
        }
        if buckets.by_key.len() >= self.keys_most {
            return take(&mut buckets.shared, rate, now);
        }
        let mut bucket = TokenBucket::full(rate, now);
        let taken = take(&mut bucket, rate, now);
        buckets.by_key.insert(key.clone(), bucket);
        taken
    }

    /// Takes a token from the bucket of `key`. Returns false when there is none.
    pub(crate) fn allows(&self, key: &K) -> bool {
        self.take(key).is_ok()
    }

    /// Gives a token back to the bucket of `key`.
    pub(crate) fn give_back(&self, key: &K) {
        let mut buckets = self.lock();
        let Buckets { by_key, shared, .. } = &mut *buckets;
        by_key.get_mut(key).unwrap_or(shared).give_back(self.rate);
    }

    fn lock(&self) -> MutexGuard<'_, Buckets<K>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Buckets<K> {
    /// Forgets the buckets that are full again: they are as good as none.
    fn sweep(&mut self, rate: Rate, now: Instant) {
        self.by_key
            .retain(|_, bucket| bucket.refill(rate, now) < rate.burst);
        let token = Duration::from_secs_f64(1.0 / rate.per_second);
        self.next_sweep = now + token.max(SWEEP);
        #[cfg(test)]
        {
            self.sweeps += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate {
        per_second: 2.0,
        burst: 10.0,
    };

    #[tokio::test(start_paused = true)]
    async fn who_has_to_wait_is_told_how_long() {
        let buckets = TokenBuckets::new(Clock, RATE, 10);
        let taken = (0..100).take_while(|_| buckets.take(&1).is_ok()).count();
        assert_eq!(taken, 10);
        assert_eq!(buckets.take(&2), Ok(()), "another key");
        let delay = buckets.take(&1).unwrap_err();
        assert_eq!(delay, Duration::from_millis(500));
        Clock.pause(delay).await;
        assert_eq!(buckets.take(&1), Ok(()));
        buckets.give_back(&1);
        assert_eq!(buckets.take(&1), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_keys_are_bounded_and_full_buckets_are_forgotten() {
        let buckets = TokenBuckets::new(Clock, RATE, 100);
        let taken = (0..1_000).filter(|key| buckets.take(key).is_ok()).count();
        assert_eq!(taken, 110, "those beyond the bound share one bucket");
        assert_eq!(buckets.lock().by_key.len(), 100);
        assert_eq!(buckets.lock().sweeps, 1, "not for each key of a flood");
        Clock.pause(Duration::from_secs(5)).await;
        assert_eq!(buckets.take(&5_000), Ok(()));
        assert_eq!(buckets.lock().by_key.len(), 1);
    }
}
