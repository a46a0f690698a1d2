//! The accounts of minions: one for each accepted key, on which every verb of the minion and of its callers draws.
//!
//! An account belongs to the minion's id and not to a session, so that nobody gets a full one by coming back. It goes
//! with the key. An account in which nothing is missing is as good as none and is forgotten, so that those that are kept
//! belong to minions that asked for something a short time ago.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_messages::MinionId;
use saline_protocol::transport::{Clock, Instant};

use super::account_limits::{AccountLimits, Resource};
use super::cost::Cost;
use super::{REPORTS, TokenBucket};
use crate::authorize::Principal;
use crate::settings::EventRates;

/// How long a minion is asked to wait that holds as many jobs open as it may: some of them have to end first.
const JOBS_OPEN_DELAY: Duration = Duration::from_secs(5);

/// The accounts of all minions.
#[derive(Debug)]
pub struct Accounts {
    clock: Clock,
    limits: AccountLimits,
    accounts: Mutex<HashMap<MinionId, Account>>,
    /// The requests that were refused since the master started.
    refused: AtomicU64,
}

/// The account of one minion: a bucket for each resource that the minion has used.
#[derive(Debug)]
struct Account {
    buckets: [Option<TokenBucket>; Resource::ALL.len()],
    /// The lines of the log about this account.
    reports: TokenBucket,
}

/// A draw that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Exceeded {
    resource: Resource,
    delay: Duration,
    /// Whether the log has said nothing of this minion for a while.
    is_reported: bool,
}

impl Account {
    fn full(now: Instant) -> Self {
        Self {
            buckets: [None; Resource::ALL.len()],
            reports: TokenBucket::full(REPORTS, now),
        }
    }

    /// Takes what a request costs, all of it or nothing. A request may take more than is left, and the account is in
    /// debt then, so that no request is too large for it.
    fn draw(
        &mut self,
        cost: &Cost,
        limits: &AccountLimits,
        events: EventRates,
        now: Instant,
    ) -> Result<(), (Resource, Duration)> {
        let mut exceeded = None;
        for resource in Resource::ALL {
            if cost.of(resource) == 0 {
                continue;
            }
            let bucket = &mut self.buckets[resource as usize];
            let Some(rate) = limits.rate(resource, events) else {
                *bucket = None;
                continue;
            };
            let bucket = bucket.get_or_insert_with(|| TokenBucket::full(rate, now));
            let delay = bucket.debt(rate, now);
            if !delay.is_zero() && exceeded.is_none_or(|(_, longest)| longest < delay) {
                exceeded = Some((resource, delay));
            }
        }
        if let Some(exceeded) = exceeded {
            return Err(exceeded);
        }
        for resource in Resource::ALL {
            if let Some(bucket) = &mut self.buckets[resource as usize] {
                bucket.take(cost.of(resource) as f64);
            }
        }
        Ok(())
    }

    fn is_full(&mut self, limits: &AccountLimits, events: EventRates, now: Instant) -> bool {
        let mut buckets = Resource::ALL.into_iter().zip(&mut self.buckets);
        buckets.all(
            |(resource, bucket)| match (bucket, limits.rate(resource, events)) {
                (Some(bucket), Some(rate)) => bucket.refill(rate, now) >= rate.burst,
                _ => true,
            },
        )
    }
}

impl Accounts {
    /// Creates the state in which nobody has used anything.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            limits: AccountLimits::default(),
            accounts: Mutex::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// Returns what every account allows.
    pub(crate) fn limits(&self) -> &AccountLimits {
        &self.limits
    }

    /// Takes what a request of `peer` costs from the account of the minion `id`. The buckets of events fill at `events`
    /// now. `may_run` tells how many of so many further jobs the minion may hold open.
    ///
    /// # Errors
    /// When something is used up: the delay after which the minion may ask again. The log names the minion and what it
    /// has used up, once a second at most.
    pub(crate) fn draw(
        &self,
        id: &MinionId,
        peer: &Principal,
        cost: &Cost,
        events: EventRates,
        may_run: impl FnOnce(usize) -> usize,
    ) -> Result<(), Duration> {
        let exceeded = match cost.begins > 0 && may_run(cost.begins) < cost.begins {
            true => Some((Resource::OpenJobs, JOBS_OPEN_DELAY)),
            false => None,
        };
        let Err(exceeded) = self.take(id, cost, events, exceeded) else {
            return Ok(());
        };
        self.refused.fetch_add(1, Ordering::Relaxed);
        let Exceeded {
            resource, delay, ..
        } = exceeded;
        if exceeded.is_reported {
            tracing::warn!("{peer} asks for too much: {resource}; it is told to wait {delay:.1?}");
        }
        Err(delay)
    }

    fn take(
        &self,
        id: &MinionId,
        cost: &Cost,
        events: EventRates,
        exceeded: Option<(Resource, Duration)>,
    ) -> Result<(), Exceeded> {
        let now = self.clock.now();
        let mut accounts = self.lock();
        let account = match accounts.get_mut(id) {
            Some(account) => account,
            None => accounts.entry(id.clone()).or_insert(Account::full(now)),
        };
        let drawn = match exceeded {
            Some(exceeded) => Err(exceeded),
            None => account.draw(cost, &self.limits, events, now),
        };
        drawn.map_err(|(resource, delay)| Exceeded {
            resource,
            delay,
            is_reported: account.reports.take_one(REPORTS, now).is_ok(),
        })
    }

    /// Notes the bytes of an answer to the minion, which may bring its account into debt.
    pub(crate) fn note_answer(&self, id: &MinionId, bytes: usize) {
        let now = self.clock.now();
        let rate = self.limits.bytes_out;
        if let Some(account) = self.lock().get_mut(id) {
            let bucket = &mut account.buckets[Resource::BytesOut as usize];
            let bucket = bucket.get_or_insert_with(|| TokenBucket::full(rate, now));
            bucket.refill(rate, now);
            bucket.take(bytes as f64);
        }
    }

    /// Forgets the account of a minion whose key is accepted no more.
    pub(crate) fn forget(&self, id: &MinionId) {
        self.lock().remove(id);
    }

    /// Forgets the accounts in which nothing is missing.
    pub(crate) fn sweep(&self, events: EventRates) {
        let now = self.clock.now();
        let mut accounts = self.lock();
        accounts.retain(|_, account| !account.is_full(&self.limits, events, now));
        if accounts.is_empty() {
            // Thousands may have been here.
            accounts.shrink_to_fit();
        }
    }

    /// Returns how many accounts are kept, and how many requests were refused since the master started.
    pub(crate) fn report(&self) -> (usize, u64) {
        (self.lock().len(), self.refused.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<MinionId, Account>> {
        // Every change under this lock is complete in one step, so a poisoned lock is still valid.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Accounts {
    /// Brings the account of a minion into a debt that no test outlives.
    pub(crate) fn exhaust(&self, id: &MinionId) {
        let now = self.clock.now();
        let mut accounts = self.lock();
        let account = accounts.entry(id.clone()).or_insert(Account::full(now));
        let mut bucket = TokenBucket::full(self.limits.bytes_in, now);
        bucket.take(1e15);
        account.buckets[Resource::BytesIn as usize] = Some(bucket);
    }
}

#[cfg(test)]
mod tests;
