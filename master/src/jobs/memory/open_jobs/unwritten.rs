//! The states that have changed since they were written.

use std::collections::BTreeMap;
use std::ops::Bound;

use saline_messages::{MinionId, MinionJobState};

use super::OpenJobs;

/// The states of a job's minions that have to be written.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    states: BTreeMap<MinionId, (MinionJobState, u64)>,
    /// The number of the last change.
    last: u64,
}

/// A state of a minion in a job that has to be written.
#[derive(Debug, Clone)]
pub(crate) struct UnwrittenState {
    pub(crate) job: i64,
    pub(crate) minion: MinionId,
    pub(crate) state: MinionJobState,
    /// The number of the change: there is a later one if the minion has another number by now.
    change: u64,
}

impl Unwritten {
    pub(super) fn insert(&mut self, minion: &MinionId, state: MinionJobState) {
        self.last += 1;
        self.states.insert(minion.clone(), (state, self.last));
    }

    pub(super) fn get(&self, minion: &MinionId) -> Option<MinionJobState> {
        self.states.get(minion).map(|(state, _)| *state)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&MinionId, MinionJobState)> {
        self.states
            .iter()
            .map(|(minion, (state, _))| (minion, *state))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.states.is_empty()
    }
}

impl OpenJobs {
    /// Whether the state of a minion in a job is not written.
    pub(crate) fn is_unwritten(&self, job: i64, minion: &MinionId) -> bool {
        let opened = self.jobs.get(&job);
        opened.is_some_and(|job| job.unwritten.get(minion).is_some())
    }

    /// Returns at most `most` states that are not written, in the order of the jobs and of their minions, after that of a
    /// minion in a job.
    pub(crate) fn unwritten(
        &self,
        after: Option<&(i64, MinionId)>,
        most: usize,
    ) -> Vec<UnwrittenState> {
        let first = after.map_or(i64::MIN, |(job, _)| *job);
        let jobs = self.changed.range(first..);
        let jobs = jobs.filter_map(|number| Some((*number, self.jobs.get(number)?)));
        let states = jobs.flat_map(|(number, job)| {
            let after = after.filter(|(first, _)| *first == number);
            let from = after.map_or(Bound::Unbounded, |(_, minion)| Bound::Excluded(minion));
            let states = job
                .unwritten
                .states
                .range::<MinionId, _>((from, Bound::Unbounded));
            states.map(move |(minion, (state, change))| UnwrittenState {
                job: number,
                minion: minion.clone(),
                state: *state,
                change: *change,
            })
        });
        states.take(most).collect()
    }

    /// Notes that a state is written.
    pub(crate) fn written(&mut self, written: &UnwrittenState) {
        let Some(opened) = self.jobs.get_mut(&written.job) else {
            return;
        };
        if let Some(open) = opened.minions.get_mut(&written.minion) {
            open.is_written_as_running = written.state == MinionJobState::Running;
        }
        let states = &mut opened.unwritten.states;
        let is_last = |(_, change): &(MinionJobState, u64)| *change == written.change;
        if states.get(&written.minion).is_some_and(is_last) {
            states.remove(&written.minion);
            if states.is_empty() {
                self.changed.remove(&written.job);
            }
            self.leave_if_over(written.job);
        }
    }
}
