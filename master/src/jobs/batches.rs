//! The batches in the job store, as the `BatchScheduler` and the verbs use them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use saline_messages::{Jid, MasterTime, MinionId, SignedJob};

use crate::wire_time::milliseconds;

pub use super::memory::batch_progress::{BatchProgress, BatchReport, BatchStep, BatchStop};
use super::returns::BatchFailures;
use super::{JobStore, StoreError, catch_up, jid, lock, lookup, returns};

/// Returns how long a minion of a batch may be away, or take to claim the job, before others take its slot, in
/// milliseconds: two heartbeats, after which one that is silent counts as gone.
pub(super) fn grace(heartbeat: Duration) -> MasterTime {
    milliseconds(heartbeat).saturating_mul(2)
}

impl JobStore {
    /// Waits until a [step](Self::step_batches) may change something.
    ///
    /// # Cancel safety
    /// A wake-up is not lost when the future is dropped.
    pub async fn batches_changed(&self) {
        self.batch_changed.notified().await;
    }

    /// Whether batches are under way, and whether one of them has not been told yet which minions are present.
    pub fn batches_under_way(&self) -> (bool, bool) {
        lock(&self.open).batches_under_way()
    }

    /// Carries out one step of all batches. `present` are the minions that are present now; none if the caller has not
    /// found out. The changed states are on the disk after the next [`flush`](Self::flush).
    pub fn step_batches(&self, present: Option<&BTreeSet<MinionId>>) -> BatchStep {
        let now = self.now();
        lock(&self.open).step_batches(now, present)
    }

    /// Returns how far the batches that are under way have come, the oldest first.
    pub fn batches(&self) -> Vec<BatchProgress> {
        lock(&self.open).batch_progress()
    }

    /// Returns how long minions that are gone still have to come back, if they hold up a batch under way: all that have
    /// its slots, or all that wait for their turn when nobody has one.
    pub fn grace_left(&self, jid: &Jid) -> Option<Duration> {
        let until = lock(&self.open).batch_grace_ends(jid::to_micros(jid)?)?;
        Some(Duration::from_millis(until.saturating_sub(self.now())))
    }

    /// Returns which minions of a job failed.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn failures(&self, jid: &Jid) -> Result<BatchFailures, StoreError> {
        let Some(job) = jid::to_micros(jid) else {
            return Ok(BatchFailures::default());
        };
        let failures = self.read(job, move |connection| {
            let cancelled = lookup::cancelled_at(connection, job)?;
            returns::failures(connection, job, cancelled).map(Some)
        });
        Ok(failures.await?.unwrap_or_default())
    }

    /// Returns a job with its signature and its secrets, to be published again; none if there is no such job.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn signed_job(&self, jid: &Jid) -> Result<Option<SignedJob>, StoreError> {
        let Some(job) = jid::to_micros(jid) else {
            return Ok(None);
        };
        let secrets = Arc::clone(&self.secrets);
        self.reader
            .call(move |connections| catch_up::read_signed(connections, &secrets, job))
            .await
    }
}
