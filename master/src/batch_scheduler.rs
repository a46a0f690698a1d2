//! Drives batches: finds out which minions are present, publishes jobs to minions that have got their turn, and
//! fires the events.
//!
//! `OpenJobs` holds the slots beside the states of the job, under the same lock, so that a grant, a return and a
//! turn never disagree. When this task is late, turns are late, and nothing else. After a crash the slots are made
//! from the states and the column `batch`.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use saline_messages::{BatchEvent, Jid, MasterTime, MinionId};

use crate::clock::MasterClock;
use crate::events::Events;
use crate::job_signer::JobSigner;
use crate::jobs::{BatchReport, BatchStep, JobStore};
use crate::publisher::MinionPublisher;
use crate::sessions::Sessions;

/// The interval at which the runner finds out which minions are present.
const PRESENCE_INTERVAL: Duration = Duration::from_secs(1);

/// Drives the batches of one master. The job store holds their slots, so that a claim and a turn never disagree;
/// a late runner delays turns and does no other harm.
#[derive(Debug)]
pub struct BatchScheduler {
    pub(crate) clock: MasterClock,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) signer: JobSigner,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) publisher: MinionPublisher,
    pub(crate) events: Events,
}

impl BatchScheduler {
    /// Runs until the future is dropped.
    pub async fn run(self) {
        let mut looks = self.clock.clock().interval(PRESENCE_INTERVAL);
        let mut is_look_due = true;
        loop {
            let (any, is_new) = self.jobs.batches_under_way();
            let present = (any && (is_look_due || is_new)).then(|| self.present());
            let step = self.jobs.step_batches(present.as_ref());
            let next = step.next;
            self.carry_out(step).await;
            is_look_due = tokio::select! {
                () = self.jobs.batches_changed() => false,
                _ = looks.tick(), if any => true,
                () = self.reached(next) => false,
            };
        }
    }

    fn present(&self) -> BTreeSet<MinionId> {
        let sessions = self.sessions.all_alive();
        let ids = sessions.iter().filter_map(|s| s.principal.minion());
        ids.cloned().collect()
    }

    /// Waits until the master's time has reached `time`; without one, for ever.
    async fn reached(&self, time: Option<MasterTime>) {
        match time {
            Some(time) => {
                let left = time.saturating_sub(self.clock.now());
                self.clock.clock().pause(Duration::from_millis(left)).await;
            }
            None => pending().await,
        }
    }

    async fn carry_out(&self, step: BatchStep) {
        for (jid, minions) in step.turns {
            self.tell_turns(&jid, minions).await;
        }
        if !step.settled.is_empty()
            && let Err(error) = self.jobs.flush_all().await
        {
            tracing::error!(
                "what a batch leaves out is not on the disk yet, and would get its turn after a crash: {error}"
            );
        }
        for (jid, id, state) in step.settled {
            tracing::info!("job {jid}: minion {id}: {}", state.name());
            self.events.job_state(&jid, &id, state).await;
        }
        for report in step.reports {
            log(&report);
            self.events.batch(&report).await;
        }
    }

    /// Publishes the job to the minions that have got their turn: they claim it then.
    async fn tell_turns(&self, jid: &Jid, minions: Vec<MinionId>) {
        match self.jobs.signed_job(jid).await {
            Ok(Some(job)) => {
                for id in &minions {
                    tracing::debug!("batch {jid}: it is the turn of minion {id}");
                }
                let job = self.signer.sign_again(job);
                self.publisher.private_job(job, minions).await;
            }
            // The job was removed meanwhile.
            Ok(None) => {}
            // The turns are given again when nobody claims them.
            Err(error) => tracing::error!("batch {jid}: the job was not read: {error}"),
        }
    }
}

fn log(report: &BatchReport) {
    let progress = &report.progress;
    let jid = &progress.jid;
    match report.event {
        BatchEvent::New => tracing::info!(
            "batch {jid}: minions in all: {}, at a time: {}",
            progress.minions,
            progress.batch.size
        ),
        BatchEvent::Recover => tracing::info!(
            "batch {jid}: it goes on; minions whose turn has not come: {}, whose turn it is: {}",
            progress.waiting,
            progress.active
        ),
        BatchEvent::Halted => tracing::warn!(
            "batch {jid}: halted, since {} failed; no further minion gets its turn",
            report
                .failed
                .as_ref()
                .map_or("a minion".to_owned(), |id| format!("minion {id}"))
        ),
        BatchEvent::Stop => {
            tracing::info!("batch {jid}: stopped; no further minion gets its turn");
        }
        BatchEvent::Complete => tracing::info!("batch {jid}: complete"),
        BatchEvent::Progress => tracing::debug!(
            "batch {jid}: minions that have ended: {}, whose turn it is: {}, whose turn has not come: {}",
            progress.ended,
            progress.active,
            progress.waiting
        ),
    }
}
