//! The jobs that are under way, in memory: which minion is in which state, and what each minion may
//! still begin. A state machine without a disk: [`JobStore`](crate::jobs::JobStore) feeds it what was
//! committed, and writes what it says has changed.
//!
//! A job is here from its publication until no minion may begin it and none runs it, and for a while
//! longer when minions have not acknowledged its expiry. Returns, expiries by the clock and the expiry acks
//! of minions are not written as states; every other change is, and its job is *changed* until then.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use saline_messages::{Jid, MasterTime, MinionId, MinionJobState};
use tokio::sync::Notify;

mod batches;
mod endings;

use super::states::{States, may_become};
use crate::jobs::jid;
use crate::jobs::memory::batch_progress::BatchReport;

pub(crate) use batches::Recovered;

use batches::OpenBatch;

/// How long a job stays here after its expiry though minions have not acknowledged it, in
/// milliseconds. Later the disk and their expiry acks tell the same.
const ACK_AWAITED: MasterTime = 120_000;

/// The jobs that are under way. A job is named by its jid in microseconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct OpenJobs {
    jobs: BTreeMap<i64, OpenJob>,
    /// The jobs in which each minion's state is not final.
    open: HashMap<MinionId, BTreeSet<i64>>,
    /// The jobs that a minion may still begin or has not acknowledged the expiry of, by the time at which that
    /// is looked at.
    expiries: BTreeSet<(MasterTime, i64)>,
    /// The jobs that were cancelled while they are here.
    cancelled: BTreeSet<i64>,
    /// The jobs with a state that is not written.
    changed: BTreeSet<i64>,
    /// The number of all minions of all jobs.
    offers: usize,
    /// The minions whose offers were withdrawn lately, and when.
    withdrawals: VecDeque<(MasterTime, MinionId)>,
    /// The jobs that are batches under way.
    batches: BTreeSet<i64>,
    /// Reports of batches that have ended and are not in the table any more.
    ended_batches: Vec<BatchReport>,
    /// Notified when a step of the batches may come to something.
    batch_changed: Arc<Notify>,
    /// Wakes whoever waits for a state to change.
    state_changed: Arc<Notify>,
}

/// A job that minions run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveJob {
    /// The jid of the job.
    pub jid: Jid,
    /// The minions that run it.
    pub running: Vec<MinionId>,
    /// The minions whose return is stored.
    pub returned: Vec<MinionId>,
}

#[derive(Debug)]
struct OpenJob {
    expires: MasterTime,
    /// When it is looked at again, if it is among the `expiries`.
    looked_at: Option<MasterTime>,
    states: States,
    /// The number of minions whose state is not final.
    open: usize,
    /// When the job was published, or last reported as running.
    heard: MasterTime,
    /// The number of changes that have to be written.
    changes: u64,
    /// Whether the store has it among the jobs that a start reads, since a minion ran it.
    is_written_as_running: bool,
    /// The slots of the batch, if the job is a batch under way.
    batch: Option<Box<OpenBatch>>,
}

/// The states of a job, to be written.
#[derive(Debug, Clone)]
pub(crate) struct ChangedJob {
    pub(crate) job: i64,
    pub(crate) states: States,
    changes: u64,
}

/// The result of looking up one minion in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MinionLookup {
    /// The job is not here: it is over, or there is none.
    JobNotHere,
    /// The job was not published to the minion.
    NotExpected,
    /// The minion's state.
    State(MinionJobState),
}

/// The changes that the passing of time has made.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expiries {
    /// The offers that have expired.
    pub(crate) expired: Vec<(Jid, MinionId)>,
    /// The minions that have not acknowledged the expiry of a job that is not held here any more.
    pub(crate) unacked: Vec<MinionId>,
}

impl OpenJob {
    /// Returns the place of a minion in the states.
    fn index(&self, minion: &MinionId) -> Option<usize> {
        self.states.binary_search_by(|(id, _)| id.cmp(minion)).ok()
    }

    fn find(&self, minion: &MinionId) -> Option<MinionJobState> {
        self.index(minion).map(|at| self.states[at].1)
    }

    /// Whether the minion may begin the job, or claim it.
    fn may_begin(&self, minion: &MinionId) -> bool {
        let Some(at) = self.index(minion) else {
            return false;
        };
        may_begin(self.states[at].1)
            && self
                .batch
                .as_ref()
                .is_none_or(|batch| batch.slots.may_claim(at))
    }

    /// Returns the minions whose state is one of these.
    fn minions_in(&self, which: impl Fn(MinionJobState) -> bool) -> Vec<MinionId> {
        let there = self.states.iter().filter(|(_, state)| which(*state));
        there.map(|(minion, _)| minion.clone()).collect()
    }

    fn any(&self, which: MinionJobState) -> bool {
        self.states.iter().any(|(_, state)| *state == which)
    }
}

impl OpenJobs {
    /// Adds a committed job that was published or heard of at `heard`, unless nobody may begin or runs
    /// it. The minions must be in the order of their ids.
    pub(crate) fn insert(
        &mut self,
        job: i64,
        expires: MasterTime,
        states: States,
        heard: MasterTime,
    ) {
        // Usually there is none: a job that is over comes back when it is heard late that it runs.
        self.remove(job);
        let open = states.iter().filter(|(_, state)| !state.is_final()).count();
        if open == 0 {
            return;
        }
        let mut unbegun = false;
        for (minion, state) in &states {
            unbegun |= may_begin(*state);
            if !state.is_final() {
                self.add_open(minion, job);
            }
        }
        if unbegun {
            self.expiries.insert((expires, job));
        }
        self.offers += states.len();
        let opened = OpenJob {
            expires,
            looked_at: unbegun.then_some(expires),
            states,
            open,
            heard,
            changes: 0,
            is_written_as_running: false,
            batch: None,
        };
        self.jobs.insert(job, opened);
    }

    /// Returns what is notified when a step of the batches may come to something.
    pub(crate) fn batch_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.batch_changed)
    }

    /// Returns what wakes all waiters when the state of a minion has changed.
    pub(crate) fn state_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.state_changed)
    }

    /// Returns the jobs that minions run, the oldest first.
    pub(crate) fn active(&self) -> Vec<ActiveJob> {
        let running = |(number, job): (&i64, &OpenJob)| {
            let running = job.minions_in(|state| state == MinionJobState::Running);
            (!running.is_empty()).then(|| ActiveJob {
                jid: jid::from_micros(*number),
                running,
                returned: job.minions_in(|state| state == MinionJobState::Returned),
            })
        };
        self.jobs.iter().filter_map(running).collect()
    }

    /// Returns the number of jobs in which a minion's state is not final.
    pub(crate) fn under_way(&self) -> usize {
        self.jobs.values().filter(|job| job.open > 0).count()
    }

    /// Returns the number of all minions of all jobs that are here.
    pub(crate) fn offers(&self) -> usize {
        self.offers
    }

    /// Returns the minions that have a job here in a state that is not final.
    pub(crate) fn minions(&self) -> Vec<MinionId> {
        self.open.keys().cloned().collect()
    }

    /// Whether the minion has a job here in a state that is not final.
    pub(crate) fn has_minion(&self, minion: &MinionId) -> bool {
        self.open.contains_key(minion)
    }

    /// Returns how many of `wanted` further jobs the minion may run, if it may run `most` at a time.
    pub(crate) fn may_begin_to_run(&self, minion: &MinionId, wanted: usize, most: usize) -> usize {
        let open = self.open.get(minion);
        if open.map_or(0, BTreeSet::len) + wanted <= most {
            return wanted;
        }
        // Only of a minion with very many jobs are they counted.
        let is_running = |job: &&i64| {
            let job = self.jobs.get(job);
            job.and_then(|job| job.find(minion)) == Some(MinionJobState::Running)
        };
        let running = open.map_or(0, |open| open.iter().filter(is_running).count());
        wanted.min(most.saturating_sub(running))
    }

    /// Whether the job is here.
    pub(crate) fn has(&self, job: i64) -> bool {
        self.jobs.contains_key(&job)
    }

    /// Returns what is known of the minion in the job.
    pub(crate) fn lookup(&self, job: i64, minion: &MinionId) -> MinionLookup {
        match self.jobs.get(&job).map(|job| job.find(minion)) {
            None => MinionLookup::JobNotHere,
            Some(None) => MinionLookup::NotExpected,
            Some(Some(state)) => MinionLookup::State(state),
        }
    }

    /// Returns the states of the job's minions, and the time until which they may begin; none when the
    /// job is not here.
    pub(crate) fn states(&self, job: i64) -> Option<(&States, MasterTime)> {
        self.jobs.get(&job).map(|job| (&job.states, job.expires))
    }

    /// Changes the state of a minion if the change is [allowed](may_become). Returns whether it was.
    pub(crate) fn set(
        &mut self,
        job: i64,
        minion: &MinionId,
        to: MinionJobState,
        now: MasterTime,
    ) -> bool {
        let is_written = to != MinionJobState::Returned;
        self.change(job, minion, to, now, is_written)
    }

    /// Notes that the return of a minion is stored, and whether it is one of a failure.
    pub(crate) fn returned(&mut self, job: i64, minion: &MinionId, failed: bool, now: MasterTime) {
        self.change_to(job, minion, MinionJobState::Returned, failed, now, false);
    }

    /// Changes a state. `is_written` says that only what is written tells it after a crash.
    fn change(
        &mut self,
        job: i64,
        minion: &MinionId,
        to: MinionJobState,
        now: MasterTime,
        is_written: bool,
    ) -> bool {
        self.change_to(job, minion, to, false, now, is_written)
    }

    fn change_to(
        &mut self,
        job: i64,
        minion: &MinionId,
        to: MinionJobState,
        failed: bool,
        now: MasterTime,
        is_written: bool,
    ) -> bool {
        let Some(opened) = self.jobs.get_mut(&job) else {
            return false;
        };
        if to == MinionJobState::Running {
            opened.heard = opened.heard.max(now);
        }
        let Some(at) = opened.index(minion) else {
            return false;
        };
        let from = opened.states[at].1;
        if !may_become(from, to) {
            return false;
        }
        opened.states[at].1 = to;
        self.state_changed.notify_waiters();
        if let Some(batch) = &mut opened.batch {
            batch.slots.changed(at, to, failed, now);
            self.batch_changed.notify_one();
        }
        if is_written {
            opened.changes += 1;
            self.changed.insert(job);
        }
        match (from.is_final(), to.is_final()) {
            (false, true) => {
                opened.open -= 1;
                self.remove_open(minion, job);
            }
            (true, false) => {
                opened.open += 1;
                self.add_open(minion, job);
            }
            _ => {}
        }
        self.leave_if_over(job);
        true
    }

    /// Returns the first jobs after `after` that the minion may still begin at `now`, the oldest first.
    pub(crate) fn unbegun(
        &self,
        minion: &MinionId,
        after: i64,
        now: MasterTime,
        most: usize,
    ) -> Vec<i64> {
        let in_time = |job: &OpenJob| job.expires > now;
        let unbegun = self.open_jobs(minion, after).filter(|(number, job, _)| {
            job.may_begin(minion) && in_time(job) && !self.cancelled.contains(number)
        });
        unbegun.map(|(number, _, _)| number).take(most).collect()
    }

    /// Returns the jobs after `after` that were handed over to the minion and have no final state, with their
    /// states, the oldest first.
    pub(crate) fn handed_over(&self, minion: &MinionId, after: i64) -> Vec<(i64, MinionJobState)> {
        let handed = self.open_jobs(minion, after).filter(|(_, _, state)| {
            matches!(state, MinionJobState::Offered | MinionJobState::Running)
        });
        handed.map(|(number, _, state)| (number, state)).collect()
    }

    /// Returns the jobs that wait for the minion: it was handed them, or its turn in a batch has not come.
    pub(crate) fn waiting_for(&self, minion: &MinionId) -> Vec<i64> {
        let waits = |state| {
            matches!(
                state,
                MinionJobState::Offered | MinionJobState::Running | MinionJobState::Waiting
            )
        };
        let open = self.open_jobs(minion, i64::MIN);
        let waiting = open.filter(|(_, _, state)| waits(*state));
        waiting.map(|(number, _, _)| number).collect()
    }

    /// Returns the jobs that were cancelled after they were handed over to the minion, and that it has not
    /// accounted for.
    pub(crate) fn cancelled_of(&self, minion: &MinionId, most: usize) -> Vec<i64> {
        if self.cancelled.is_empty() {
            return Vec::new();
        }
        let offered = self
            .open_jobs(minion, i64::MIN)
            .filter(|(number, _, state)| {
                *state == MinionJobState::Offered && self.cancelled.contains(number)
            });
        offered.map(|(number, _, _)| number).take(most).collect()
    }

    fn open_jobs<'a>(
        &'a self,
        minion: &MinionId,
        after: i64,
    ) -> impl Iterator<Item = (i64, &'a OpenJob, MinionJobState)> + use<'a> {
        let open = self.open.get(minion);
        let later = open
            .into_iter()
            .flat_map(move |jobs| jobs.range(after.saturating_add(1)..));
        let minion = minion.clone();
        later.filter_map(move |number| {
            let job = self.jobs.get(number)?;
            Some((*number, job, job.find(&minion)?))
        })
    }

    /// Whether the job is here and was cancelled.
    pub(crate) fn is_cancelled(&self, job: i64) -> bool {
        self.cancelled.contains(&job)
    }

    /// Whether the job has a state that is not written.
    pub(crate) fn is_changed(&self, job: i64) -> bool {
        self.changed.contains(&job)
    }

    /// Notes that the store has the job among those that a start reads.
    pub(crate) fn is_written_as_running(&mut self, job: i64) {
        if let Some(opened) = self.jobs.get_mut(&job) {
            opened.is_written_as_running = true;
        }
    }

    /// Returns at most `most` jobs after `after` with a state that is not written.
    pub(crate) fn changed(&self, after: i64, most: usize) -> Vec<ChangedJob> {
        let jobs = self.changed.range(after.saturating_add(1)..).take(most);
        jobs.filter_map(|job| {
            let opened = self.jobs.get(job)?;
            Some(ChangedJob {
                job: *job,
                states: opened.states.clone(),
                changes: opened.changes,
            })
        })
        .collect()
    }

    /// Notes that these states of a job are written.
    pub(crate) fn written(&mut self, written: &ChangedJob) {
        let Some(opened) = self.jobs.get_mut(&written.job) else {
            return;
        };
        let runs = |(_, state): &(MinionId, MinionJobState)| *state == MinionJobState::Running;
        opened.is_written_as_running = written.states.iter().any(runs);
        if opened.changes == written.changes {
            self.changed.remove(&written.job);
            self.leave_if_over(written.job);
        }
    }

    /// Whether a job in the range may still begin at `now`, or was heard of since `since`.
    pub(crate) fn any_alive(&self, range: Range<i64>, now: MasterTime, since: MasterTime) -> bool {
        let mut jobs = self.jobs.range(range);
        jobs.any(|(_, job)| job.expires > now || (job.heard >= since && job.open > 0))
    }

    /// Forgets the jobs in the range.
    pub(crate) fn forget(&mut self, range: Range<i64>) {
        let gone: Vec<i64> = self.jobs.range(range).map(|(job, _)| *job).collect();
        for job in gone {
            self.remove(job);
        }
    }

    fn add_open(&mut self, minion: &MinionId, job: i64) {
        match self.open.get_mut(minion) {
            Some(jobs) => {
                jobs.insert(job);
            }
            None => {
                self.open.insert(minion.clone(), BTreeSet::from([job]));
            }
        }
    }

    fn remove_open(&mut self, minion: &MinionId, job: i64) {
        if let Some(jobs) = self.open.get_mut(minion) {
            jobs.remove(&job);
            if jobs.is_empty() {
                self.open.remove(minion);
            }
        }
    }

    fn leave_if_over(&mut self, job: i64) {
        let Some(opened) = self.jobs.get_mut(&job).filter(|job| job.open == 0) else {
            return;
        };
        if std::mem::take(&mut opened.is_written_as_running) {
            // Written once more, so that no later start reads it.
            opened.changes += 1;
            self.changed.insert(job);
        }
        if !self.changed.contains(&job) {
            self.remove(job);
        }
    }

    fn remove(&mut self, job: i64) {
        let Some(gone) = self.jobs.remove(&job) else {
            return;
        };
        self.offers -= gone.states.len();
        if let Some(at) = gone.looked_at {
            self.expiries.remove(&(at, job));
        }
        self.changed.remove(&job);
        self.cancelled.remove(&job);
        if gone.open > 0 {
            for (minion, state) in &gone.states {
                if !state.is_final() {
                    self.remove_open(minion, job);
                }
            }
        }
        self.batch_left(job, gone);
    }
}

/// Whether a minion in this state may still begin.
fn may_begin(state: MinionJobState) -> bool {
    state == MinionJobState::Offered || is_to_be_offered(state)
}

/// Whether the job was not handed over to a minion in this state, and may be.
fn is_to_be_offered(state: MinionJobState) -> bool {
    matches!(state, MinionJobState::Queued | MinionJobState::Waiting)
}

#[cfg(test)]
mod tests;
