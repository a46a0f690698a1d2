//! Regular upkeep: expires offers, forgets silent sessions, prunes old jobs.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::Clock;

use crate::events::Events;
use crate::jobs::{JobStore, NextExpiry};
use crate::sessions::Sessions;
use crate::wire_time::master_time;

/// How often sessions are swept and expiry is checked.
const BEAT: Duration = Duration::from_secs(1);

/// The number of beats between two runs of pruning.
const BEATS_TO_PRUNE: u32 = 300;

/// How long to wait after the store failed, in milliseconds.
const RETRY_MS: u64 = 1000;

/// The upkeep of one master.
#[derive(Debug)]
pub struct Maintenance {
    pub(crate) clock: Clock,
    /// How long jobs are kept, in milliseconds.
    pub(crate) keep_jobs: u64,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) next_expiry: NextExpiry,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) events: Events,
}

impl Maintenance {
    /// Runs until the future is dropped.
    pub async fn run(self) {
        let mut timer = self.clock.interval(BEAT);
        let mut beats = 0u32;
        loop {
            timer.tick().await;
            self.expire().await;
            self.sweep().await;
            if beats.is_multiple_of(BEATS_TO_PRUNE) {
                self.prune().await;
            }
            beats = beats.wrapping_add(1);
        }
    }

    /// Expires the offers whose minions did not begin in time, and fires an event for each.
    async fn expire(&self) {
        let now = master_time(self.clock);
        if !self.next_expiry.take_due(now) {
            return;
        }
        let expired = match self.jobs.expire(now).await {
            Ok(expired) => expired,
            Err(error) => {
                tracing::error!("offers were not expired: {error}");
                return self.next_expiry.note(now + RETRY_MS);
            }
        };
        for (jid, id) in expired {
            tracing::info!("job {jid}: minion {id} did not begin in time");
            self.events.job_expired(&jid, &id).await;
        }
        match self.jobs.next_expiry().await {
            Ok(Some(next)) => self.next_expiry.note(next),
            Ok(None) => {}
            Err(error) => {
                tracing::error!("cannot read the next expiry from the job store: {error}");
                self.next_expiry.note(now + RETRY_MS);
            }
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
        match self.jobs.prune(oldest).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!("removed {removed} jobs older than keep_jobs_seconds"),
            Err(error) => tracing::error!("old jobs were not removed: {error}"),
        }
    }
}
