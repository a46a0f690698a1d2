//! The slots of the batches that are under way, beside the states of their minions.

use std::collections::BTreeSet;

use saline_messages::{Batch, BatchEvent, MasterTime, MinionId, MinionJobState};

use super::{OpenJob, OpenJobs, States};
use crate::jid;
use crate::jobs::memory::batch_progress::{BatchProgress, BatchReport, BatchStep, BatchStop};
use crate::jobs::memory::batch_slots::{BatchSlots, Counts};

/// A batch that is under way.
#[derive(Debug)]
pub(super) struct OpenBatch {
    /// The minions of the batch, by id. Their places are those of the slots' members.
    ids: Vec<MinionId>,
    pub(super) slots: BatchSlots,
    /// Whether the store had it when the master was started.
    is_recovered: bool,
    /// The counts, and whether the batch was stopped, in the last event; none before the first event.
    told: Option<(Counts, bool)>,
}

/// How a batch that the store has at the start of a master goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Whether a failed return of it is stored.
    pub(crate) has_failed: bool,
}

impl OpenJobs {
    /// Makes a job that was just inserted with these states a batch. Everybody who is away gets `grace` milliseconds to come
    /// back. The minions must be in the order of their ids.
    pub(crate) fn insert_batch(
        &mut self,
        job: i64,
        states: States,
        batch: Batch,
        grace: MasterTime,
        recovered: Option<(Recovered, MasterTime)>,
    ) {
        let Some(opened) = self.jobs.get_mut(&job) else {
            return;
        };
        let (ids, states): (Vec<_>, Vec<_>) = states.into_iter().unzip();
        let mut slots = BatchSlots::new(batch, grace, states.into_iter());
        if let Some((recovered, now)) = recovered {
            slots.recover(now);
            if recovered.has_failed && batch.failhard {
                slots.stop(BatchStop::Halted);
            }
        }
        opened.batch = Some(Box::new(OpenBatch {
            ids,
            slots,
            is_recovered: recovered.is_some(),
            told: None,
        }));
        self.batches.insert(job);
        self.batch_changed.notify_one();
    }

    /// Whether batches are under way, and whether one of them has not been told yet which minions are present.
    pub(crate) fn batches_under_way(&self) -> (bool, bool) {
        let new = |job: &i64| {
            let batch = self.jobs.get(job).and_then(|job| job.batch.as_ref());
            batch.is_some_and(|batch| !batch.slots.is_looked_at())
        };
        (!self.batches.is_empty(), self.batches.iter().any(new))
    }

    /// Whether the job is a batch that is under way.
    pub(crate) fn is_batch(&self, job: i64) -> bool {
        self.batches.contains(&job)
    }

    /// Hands a job over to a minion that claims it, unless it may not begin it. Returns whether it may.
    pub(crate) fn claim(&mut self, job: i64, minion: &MinionId, now: MasterTime) -> bool {
        if self.unbegun(minion, job.saturating_sub(1), now, 1) != [job] {
            return false;
        }
        let Some(opened) = self.jobs.get_mut(&job) else {
            return false;
        };
        if let Some(batch) = &mut opened.batch {
            let granted = batch.claim(minion, now);
            self.batch_changed.notify_one();
            if !granted {
                return false;
            }
        }
        self.set(job, minion, MinionJobState::Offered, now);
        true
    }

    /// Carries out one step of every batch: notes which minions are `present`, if that is given, settles minions whose
    /// turn does not come, and gives turns.
    pub(crate) fn step_batches(
        &mut self,
        now: MasterTime,
        present: Option<&BTreeSet<MinionId>>,
    ) -> BatchStep {
        let mut step = BatchStep::default();
        for job in self.batches.iter().copied().collect::<Vec<_>>() {
            self.step_batch(job, now, present, &mut step);
        }
        step.reports.append(&mut self.ended_batches);
        step
    }

    fn step_batch(
        &mut self,
        job: i64,
        now: MasterTime,
        present: Option<&BTreeSet<MinionId>>,
        step: &mut BatchStep,
    ) {
        let Some(OpenJob {
            batch: Some(batch), ..
        }) = self.jobs.get_mut(&job)
        else {
            self.batches.remove(&job);
            return;
        };
        if let Some(present) = present {
            let OpenBatch { ids, slots, .. } = &mut **batch;
            slots.look(now, |at: usize| {
                ids.get(at).is_some_and(|id| present.contains(id))
            });
        }
        if batch.told.is_none() {
            let event = match batch.is_recovered {
                true => BatchEvent::Recover,
                false => BatchEvent::New,
            };
            step.reports.push(batch.report(job, event));
            batch.told = Some((batch.slots.counts(), false));
        }
        let away = match batch.slots.batch().queues {
            true => MinionJobState::Queued,
            false => MinionJobState::NotConnected,
        };
        let stopped = batch.slots.left_by_stop();
        let settled = stopped
            .into_iter()
            .map(|at| (at, MinionJobState::Cancelled));
        let behind = batch.slots.left_behind(now);
        let passed_over = behind.iter().filter(|at| batch.slots.is_passed_over(**at));
        let passed_over: BTreeSet<MinionId> = passed_over
            .filter_map(|at| batch.ids.get(*at).cloned())
            .collect();
        let behind = behind.into_iter().map(|at| (at, away));
        let settled: Vec<(MinionId, MinionJobState)> = settled
            .chain(behind)
            .filter_map(|(at, to)| Some((batch.ids.get(at)?.clone(), to)))
            .collect();
        for (minion, to) in settled {
            if self.change(job, &minion, to, now, true) {
                let jid = jid::from_micros(job);
                if passed_over.contains(&minion) {
                    tracing::warn!(
                        "batch {jid}: minion {minion} is present and let its turn pass too often; the batch goes on without it"
                    );
                }
                step.settled.push((jid, minion, to));
            }
        }
        // The batch was removed if no minion is left.
        let Some(OpenJob {
            batch: Some(batch), ..
        }) = self.jobs.get_mut(&job)
        else {
            return;
        };
        let turns = batch.slots.advance(now);
        if !turns.is_empty() {
            let ids = turns.iter().filter_map(|at| batch.ids.get(*at));
            step.turns
                .push((jid::from_micros(job), ids.cloned().collect()));
        }
        batch.tell(job, &mut step.reports);
        if batch.slots.is_complete() {
            step.reports.push(batch.report(job, BatchEvent::Complete));
            if let Some(opened) = self.jobs.get_mut(&job) {
                opened.batch = None;
            }
            self.batches.remove(&job);
            return;
        }
        step.next = match (step.next, batch.slots.next_slot(now)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }

    /// Notes the end of a batch whose job leaves.
    pub(super) fn batch_left(&mut self, job: i64, mut gone: OpenJob) {
        if let Some(mut batch) = gone.batch.take() {
            batch.tell(job, &mut self.ended_batches);
            let report = batch.report(job, BatchEvent::Complete);
            self.ended_batches.push(report);
            self.batches.remove(&job);
            self.batch_changed.notify_one();
        }
    }

    /// Returns how far the batches that are under way have come, the oldest first.
    pub(crate) fn batch_progress(&self) -> Vec<BatchProgress> {
        let open = self.batches.iter().filter_map(|job| {
            let batch = self.jobs.get(job)?.batch.as_ref()?;
            Some(batch.progress(*job))
        });
        open.collect()
    }

    /// Returns until when minions that are gone hold up a batch under way; none if they do not.
    pub(crate) fn batch_grace_ends(&self, job: i64) -> Option<MasterTime> {
        self.jobs.get(&job)?.batch.as_ref()?.slots.grace_ends()
    }
}

impl OpenBatch {
    /// Returns the place of a minion in the slots.
    fn place(&self, minion: &MinionId) -> Option<usize> {
        self.ids.binary_search(minion).ok()
    }

    /// Whether the job may be handed to the minion, which then claims it.
    pub(super) fn may_claim(&self, minion: &MinionId) -> bool {
        self.place(minion)
            .is_some_and(|at| self.slots.may_claim(at))
    }

    /// Takes the claim of a minion that has not begun. Returns whether it is granted.
    fn claim(&mut self, minion: &MinionId, now: MasterTime) -> bool {
        let place = self.place(minion);
        place.is_some_and(|at| self.slots.claim(at, now))
    }

    /// Takes a change of a minion's state. `failed` says that its return is one of a failure.
    pub(super) fn changed(
        &mut self,
        minion: &MinionId,
        to: MinionJobState,
        failed: bool,
        now: MasterTime,
    ) {
        if let Some(at) = self.place(minion) {
            self.slots.changed(at, to, failed, now);
        }
    }

    fn progress(&self, job: i64) -> BatchProgress {
        let counts = self.slots.counts();
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        BatchProgress {
            jid: jid::from_micros(job),
            batch: self.slots.batch(),
            minions: number(counts.minions),
            waiting: number(counts.waiting),
            active: number(counts.active),
            ended: number(counts.ended),
            stopped: self.slots.stopped().map(|(why, _)| why),
        }
    }

    fn report(&self, job: i64, event: BatchEvent) -> BatchReport {
        let failed = self.slots.stopped().and_then(|(_, failed)| failed);
        BatchReport {
            event,
            progress: self.progress(job),
            failed: failed.and_then(|at| self.ids.get(at).cloned()),
        }
    }

    /// Adds the events about what has changed since the last ones.
    fn tell(&mut self, job: i64, reports: &mut Vec<BatchReport>) {
        let stopped = self.slots.stopped();
        let now = (self.slots.counts(), stopped.is_some());
        let before = self.told.replace(now);
        if let (Some((why, _)), false) = (stopped, before.is_some_and(|(_, told)| told)) {
            let event = match why {
                BatchStop::Halted => BatchEvent::Halted,
                BatchStop::Cancelled => BatchEvent::Stop,
            };
            reports.push(self.report(job, event));
        }
        if before.is_none_or(|(counts, _)| counts != now.0) {
            reports.push(self.report(job, BatchEvent::Progress));
        }
    }
}
