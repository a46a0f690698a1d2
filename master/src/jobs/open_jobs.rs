//! The jobs that are under way, in memory: which minion is in which state, and what each minion may
//! still begin. A state machine without a disk: [`JobStore`](super::JobStore) feeds it what was
//! committed, and writes what it says has changed.
//!
//! A job is here from its publication until no minion may begin it and none runs it. A state that a
//! return tells, or the clock, is not written to the disk; others are *changed* until they are written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use saline_protocol::message::{Jid, MasterTime, MinionId, OfferState};

use super::jid;
use super::states::{States, may_become};

/// The jobs that are under way. A job is named by its jid in microseconds since 1970.
#[derive(Debug, Default)]
pub(super) struct OpenJobs {
    jobs: BTreeMap<i64, OpenJob>,
    /// The jobs that each minion may still begin.
    unbegun: HashMap<MinionId, BTreeSet<i64>>,
    /// The jobs that a minion may still begin, by the time until which it may.
    expiries: BTreeSet<(MasterTime, i64)>,
    /// The jobs with a state that is not written.
    changed: BTreeSet<i64>,
    /// The number of all minions of all jobs.
    offers: usize,
}

#[derive(Debug)]
struct OpenJob {
    expires: MasterTime,
    states: States,
    /// The number of minions whose state is not final.
    open: usize,
    /// When the job was published, or last reported as running.
    heard: MasterTime,
    /// The number of changes that have to be written.
    changes: u64,
    /// Whether the store has it among the jobs that a start reads, since a minion ran it.
    is_written_as_running: bool,
}

/// The states of a job, to be written.
#[derive(Debug, Clone)]
pub(super) struct ChangedJob {
    pub(super) job: i64,
    pub(super) states: States,
    changes: u64,
}

/// What is known here of one minion in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MinionLookup {
    /// The job is not here: it is over, or there is none.
    JobNotHere,
    /// The job was not published to the minion.
    NotExpected,
    /// The minion's state.
    State(OfferState),
}

impl OpenJob {
    fn state(&mut self, minion: &MinionId) -> Option<&mut OfferState> {
        let at = self.states.binary_search_by(|(id, _)| id.cmp(minion));
        at.ok().map(|at| &mut self.states[at].1)
    }
}

impl OpenJobs {
    /// Adds a committed job that was published or heard of at `heard`, unless nobody may begin or runs
    /// it. The minions must be in the order of their ids.
    pub(super) fn insert(
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
            if may_begin(*state) {
                unbegun = true;
                match self.unbegun.get_mut(minion) {
                    Some(jobs) => {
                        jobs.insert(job);
                    }
                    None => {
                        self.unbegun.insert(minion.clone(), BTreeSet::from([job]));
                    }
                }
            }
        }
        if unbegun {
            self.expiries.insert((expires, job));
        }
        self.offers += states.len();
        let opened = OpenJob {
            expires,
            states,
            open,
            heard,
            changes: 0,
            is_written_as_running: false,
        };
        self.jobs.insert(job, opened);
    }

    /// Returns the number of all minions of all jobs that are here.
    pub(super) fn offers(&self) -> usize {
        self.offers
    }

    /// Whether the job is here.
    pub(super) fn has(&self, job: i64) -> bool {
        self.jobs.contains_key(&job)
    }

    /// Returns what is known of the minion in the job.
    pub(super) fn lookup(&mut self, job: i64, minion: &MinionId) -> MinionLookup {
        match self.jobs.get_mut(&job).map(|job| job.state(minion)) {
            None => MinionLookup::JobNotHere,
            Some(None) => MinionLookup::NotExpected,
            Some(Some(state)) => MinionLookup::State(*state),
        }
    }

    /// Returns the states of the job's minions, and the time until which they may begin; none when the
    /// job is not here.
    pub(super) fn states(&self, job: i64) -> Option<(&States, MasterTime)> {
        self.jobs.get(&job).map(|job| (&job.states, job.expires))
    }

    /// Changes the state of a minion if the change is [allowed](may_become). Returns whether it was.
    pub(super) fn set(
        &mut self,
        job: i64,
        minion: &MinionId,
        to: OfferState,
        now: MasterTime,
    ) -> bool {
        let Some(opened) = self.jobs.get_mut(&job) else {
            return false;
        };
        if to == OfferState::Running {
            opened.heard = opened.heard.max(now);
        }
        let Some(state) = opened.state(minion) else {
            return false;
        };
        let from = *state;
        if !may_become(from, to) {
            return false;
        }
        *state = to;
        if to != OfferState::Returned {
            opened.changes += 1;
            self.changed.insert(job);
        }
        match (from.is_final(), to.is_final()) {
            (false, true) => opened.open -= 1,
            (true, false) => opened.open += 1,
            _ => {}
        }
        if may_begin(from) && !may_begin(to) {
            self.begun(job, minion);
        }
        self.leave_if_over(job);
        true
    }

    /// Returns the first jobs after `after` that the minion may still begin at `now`, the oldest first.
    pub(super) fn unbegun(
        &self,
        minion: &MinionId,
        after: i64,
        now: MasterTime,
        most: usize,
    ) -> Vec<i64> {
        let Some(jobs) = self.unbegun.get(minion) else {
            return Vec::new();
        };
        let later = jobs.range(after.saturating_add(1)..).copied();
        let in_time = |job: &i64| self.jobs.get(job).is_some_and(|job| job.expires > now);
        later.filter(in_time).take(most).collect()
    }

    /// Expires what nobody has begun by `now`, and returns it, the oldest job first.
    pub(super) fn expire(&mut self, now: MasterTime) -> Vec<(Jid, MinionId)> {
        let mut due = Vec::new();
        while self.expiries.first().is_some_and(|(at, _)| *at <= now) {
            due.extend(self.expiries.pop_first().map(|(_, job)| job));
        }
        due.sort_unstable();
        let mut expired = Vec::new();
        for job in due {
            let Some(opened) = self.jobs.get_mut(&job) else {
                continue;
            };
            let mut minions = Vec::new();
            for (minion, state) in &mut opened.states {
                if may_begin(*state) {
                    *state = OfferState::Expired;
                    minions.push(minion.clone());
                }
            }
            opened.open -= minions.len();
            for minion in minions {
                self.begun(job, &minion);
                expired.push((jid::from_micros(job), minion));
            }
            self.leave_if_over(job);
        }
        expired
    }

    /// Notes that the store has the job among those that a start reads.
    pub(super) fn is_written_as_running(&mut self, job: i64) {
        if let Some(opened) = self.jobs.get_mut(&job) {
            opened.is_written_as_running = true;
        }
    }

    /// Returns at most `most` jobs after `after` with a state that is not written.
    pub(super) fn changed(&self, after: i64, most: usize) -> Vec<ChangedJob> {
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
    pub(super) fn written(&mut self, written: &ChangedJob) {
        let Some(opened) = self.jobs.get_mut(&written.job) else {
            return;
        };
        let runs = |(_, state): &(MinionId, OfferState)| *state == OfferState::Running;
        opened.is_written_as_running = written.states.iter().any(runs);
        if opened.changes == written.changes {
            self.changed.remove(&written.job);
            self.leave_if_over(written.job);
        }
    }

    /// Whether a job in the range may still begin at `now`, or was heard of since `since`.
    pub(super) fn any_alive(&self, range: Range<i64>, now: MasterTime, since: MasterTime) -> bool {
        let mut jobs = self.jobs.range(range);
        jobs.any(|(_, job)| job.expires > now || (job.heard >= since && job.open > 0))
    }

    /// Forgets the jobs in the range.
    pub(super) fn forget(&mut self, range: Range<i64>) {
        let gone: Vec<i64> = self.jobs.range(range).map(|(job, _)| *job).collect();
        for job in gone {
            self.remove(job);
        }
    }

    /// Takes the job off the list of what the minion may begin.
    fn begun(&mut self, job: i64, minion: &MinionId) {
        if let Some(jobs) = self.unbegun.get_mut(minion) {
            jobs.remove(&job);
            if jobs.is_empty() {
                self.unbegun.remove(minion);
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
        self.expiries.remove(&(gone.expires, job));
        self.changed.remove(&job);
        if gone.open > 0 {
            for (minion, state) in &gone.states {
                if may_begin(*state) {
                    self.begun(job, minion);
                }
            }
        }
    }
}

/// Whether a minion in this state may still begin.
fn may_begin(state: OfferState) -> bool {
    matches!(state, OfferState::Offered | OfferState::Queued)
}

#[cfg(test)]
mod tests;
