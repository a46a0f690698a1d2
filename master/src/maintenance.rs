//! Regular upkeep: expires offers, writes what changed, forgets silent sessions, prunes old jobs.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::Clock;

use crate::events::Events;
use crate::jobs::JobStore;
use crate::partial_returns::PartialReturns;
use crate::sessions::Sessions;
use crate::wire_time::master_time;

/// How often sessions are swept and expiry is checked.
const BEAT: Duration = Duration::from_secs(1);

/// How often old jobs are pruned.
const PRUNING: Duration = Duration::from_secs(300);

/// The upkeep of one master.
#[derive(Debug)]
pub struct Maintenance {
    pub(crate) clock: Clock,
    /// How long jobs are kept, in milliseconds.
    pub(crate) keep_jobs: u64,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) parts: Arc<PartialReturns>,
    pub(crate) events: Events,
}

impl Maintenance {
    /// Runs until the future is dropped.
    pub async fn run(self) {
        // Apart: what prunes may wait for a copy or a check of the store.
        tokio::join!(self.beats(), self.prunings());
    }

    async fn beats(&self) {
        let mut timer = self.clock.interval(BEAT);
        loop {
            timer.tick().await;
            self.expire().await;
            self.flush().await;
            self.sweep().await;
            self.parts.sweep();
        }
    }

    async fn prunings(&self) {
        let mut timer = self.clock.interval(PRUNING);
        loop {
            timer.tick().await;
            self.prune().await;
        }
    }

    /// Expires the offers whose minions did not begin in time, and fires an event for each.
    async fn expire(&self) {
        for (jid, id) in self.jobs.expire(master_time(self.clock)) {
            tracing::info!("job {jid}: minion {id} did not begin in time");
            self.events.job_expired(&jid, &id).await;
        }
    }

    /// Writes the states that minions reported.
    async fn flush(&self) {
        if let Err(error) = self.jobs.flush().await {
            tracing::debug!("the states of jobs were not written: {error}");
        }
    }

    async fn sweep(&self) {
        let lost = self.sessions.sweep();
        if !lost.is_empty() {
            tracing::info!("{} minions fell silent: {lost:?}", lost.len());
            self.events.minions_lost(&lost).await;
        }
    }

    async fn prune(&self) {
        let oldest = master_time(self.clock).saturating_sub(self.keep_jobs);
        let pruned = match self.jobs.prune(oldest).await {
            Ok(pruned) => pruned,
            Err(error) => return tracing::error!("old jobs were not removed: {error}"),
        };
        for part in pruned {
            let before = part.before;
            match (part.early, part.under_way) {
                (false, _) => tracing::info!("removed the jobs before {before}: keep_jobs_seconds"),
                (true, false) => tracing::warn!(
                    "removed the jobs before {before} early: the job store reached job_store_size"
                ),
                (true, true) => tracing::warn!(
                    "removed the jobs before {before} early, though minions still run some: the job \
                     store reached job_store_size"
                ),
            }
        }
    }
}
