//! The batches in the job store, as the `BatchScheduler` and the verbs use them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use saline_messages::{Batch, BatchEvent, Jid, MasterTime, MinionId, MinionJobState, SignedJob};

use crate::wire_time::milliseconds;

use super::{JobStore, StoreError, catch_up, jid, lock, lookup, returns};

/// Returns how long a minion of a batch may be away, or take to claim the job, before others take its slot, in
/// milliseconds: two heartbeats, after which one that is silent counts as gone.
pub(super) fn grace(heartbeat: Duration) -> MasterTime {
    milliseconds(heartbeat).saturating_mul(2)
}

/// How far a batch has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchProgress {
    /// The job.
    pub jid: Jid,
    /// The settings of the batch.
    pub batch: Batch,
    /// The number of its minions.
    pub minions: u64,
    /// The number of minions whose turn has not come.
    pub waiting: u64,
    /// The number of minions that hold a slot: they have got their turn, and have not ended.
    pub active: u64,
    /// The number of minions that have ended.
    pub ended: u64,
    /// The reason why no further minion gets its turn; none while minions get theirs.
    pub stopped: Option<BatchStop>,
}

/// The reason why no further minion of a batch gets its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchStop {
    /// A minion failed, and the batch was published with `--failhard`.
    Halted,
    /// An operator cancelled the job.
    Cancelled,
}

/// The outcome of a step of all batches.
#[derive(Debug, Default)]
pub struct BatchStep {
    /// The minions that have got their turn, by job. The caller publishes the job to them.
    pub turns: Vec<(Jid, Vec<MinionId>)>,
    /// The minions whose turn does not come, with their states.
    pub settled: Vec<(Jid, MinionId, MinionJobState)>,
    /// The events of batches that the caller fires, in their order.
    pub reports: Vec<BatchReport>,
    /// When the next step is due, if nothing changes.
    pub next: Option<MasterTime>,
}

/// An event of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchReport {
    /// The kind of the event.
    pub event: BatchEvent,
    /// How far the batch has come.
    pub progress: BatchProgress,
    /// The minion whose failure has halted the batch.
    pub failed: Option<MinionId>,
}

/// What is stored of the end of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchFailures {
    /// The minions whose stored returns are those of failures, by minion.
    pub minions: Vec<MinionId>,
    /// Whether an operator cancelled the job before the first of them.
    pub were_late: bool,
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
