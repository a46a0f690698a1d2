//! The open jobs of each minion: those that it may begin, those that it runs, and their numbers.

use std::collections::{BTreeSet, HashMap};

use saline_messages::{Jid, MasterTime, MinionId, MinionJobState};

use super::{OpenJob, OpenJobs};
use crate::jid;

/// The jobs in which a minion's state is not final.
#[derive(Debug, Default)]
pub(super) struct JobsOfMinion {
    pub(super) all: BTreeSet<i64>,
    /// The jobs of these that the minion runs.
    pub(super) running: BTreeSet<i64>,
}

impl OpenJobs {
    /// Returns the `most` minions that have the most jobs in a state that is not final, with the numbers of these jobs.
    pub(crate) fn busiest(&self, most: usize) -> Vec<(MinionId, usize)> {
        let mut counts: Vec<(usize, &MinionId)> = self
            .open
            .iter()
            .map(|(minion, jobs)| (jobs.all.len(), minion))
            .collect();
        counts.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        let first = counts.into_iter().take(most);
        first
            .map(|(count, minion)| (minion.clone(), count))
            .collect()
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
        let running = self.open.get(minion).map_or(0, |jobs| jobs.running.len());
        wanted.min(most.saturating_sub(running))
    }

    /// Gives up the oldest job that a minion runs, if it runs too many: the master no longer asks it for that job.
    pub(super) fn give_up_oldest(&mut self, minion: &MinionId, now: MasterTime) {
        let running = self.open.get(minion).map(|jobs| &jobs.running);
        let Some(running) = running.filter(|running| running.len() > self.most_running) else {
            return;
        };
        let Some(oldest) = running.first().copied() else {
            return;
        };
        self.change(oldest, minion, MinionJobState::LostTrack, now, true);
        self.given_up
            .push((jid::from_micros(oldest), minion.clone()));
    }

    /// Takes the jobs that were given up because their minions run too many, each with its minion.
    pub(crate) fn take_given_up(&mut self) -> Vec<(Jid, MinionId)> {
        std::mem::take(&mut self.given_up)
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

    pub(super) fn open_jobs<'a>(
        &'a self,
        minion: &MinionId,
        after: i64,
    ) -> impl Iterator<Item = (i64, &'a OpenJob, MinionJobState)> + use<'a> {
        let open = self.open.get(minion);
        let later = open
            .into_iter()
            .flat_map(move |jobs| jobs.all.range(after.saturating_add(1)..));
        let minion = minion.clone();
        later.filter_map(move |number| {
            let job = self.jobs.get(number)?;
            Some((*number, job, job.find(&minion)?))
        })
    }
}

/// Notes in the jobs of a minion its state in one of them; `None` stands for a final state, which removes the job.
pub(super) fn note_open(
    open: &mut HashMap<MinionId, JobsOfMinion>,
    minion: &MinionId,
    job: i64,
    state: Option<MinionJobState>,
) {
    let Some(state) = state else {
        if let Some(jobs) = open.get_mut(minion) {
            jobs.all.remove(&job);
            jobs.running.remove(&job);
            if jobs.all.is_empty() {
                open.remove(minion);
            }
        }
        return;
    };
    if !open.contains_key(minion) {
        open.insert(minion.clone(), JobsOfMinion::default());
    }
    if let Some(jobs) = open.get_mut(minion) {
        jobs.all.insert(job);
        match state {
            MinionJobState::Running => jobs.running.insert(job),
            _ => jobs.running.remove(&job),
        };
    }
}
