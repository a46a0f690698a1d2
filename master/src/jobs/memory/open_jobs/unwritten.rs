//! The states that have changed since they were written.

use std::collections::BTreeMap;
use std::ops::Bound;

use saline_messages::{MinionId, MinionJobState};

use super::OpenJobs;

/// The states of a job's minions that have to be written.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    states: BTreeMap<MinionId, Change>,
    /// The number of the last change.
    last: u64,
}

/// A state that has to be written.
#[derive(Debug)]
struct Change {
    state: MinionJobState,
    number: u64,
    /// Whether the store may have a row of the minion: it has one, or one was given out to be written.
    may_have_row: bool,
}

impl Change {
    /// Returns the state, which is to be written now.
    fn given_out(&mut self, job: i64, minion: &MinionId) -> UnwrittenState {
        self.may_have_row = true;
        UnwrittenState {
            job,
            minion: minion.clone(),
            state: self.state,
            change: self.number,
        }
    }
}

/// Whether no minion reports this state again after a crash, and no return tells it.
fn is_urgent(state: MinionJobState) -> bool {
    !matches!(state, MinionJobState::Running | MinionJobState::Returned)
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
    /// Notes a state that has to be written. `has_row` says that the store has a row of the minion.
    pub(super) fn insert(&mut self, minion: &MinionId, state: MinionJobState, has_row: bool) {
        self.last += 1;
        let before = self.states.get(minion);
        let change = Change {
            state,
            number: self.last,
            may_have_row: has_row || before.is_some_and(|change| change.may_have_row),
        };
        self.states.insert(minion.clone(), change);
    }

    /// Removes the state of a minion unless the store may have a row of it. Returns whether none is left.
    pub(super) fn take_back(&mut self, minion: &MinionId) -> bool {
        if self
            .states
            .get(minion)
            .is_some_and(|change| change.may_have_row)
        {
            return false;
        }
        self.states.remove(minion);
        true
    }

    pub(super) fn get(&self, minion: &MinionId) -> Option<MinionJobState> {
        self.states.get(minion).map(|change| change.state)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&MinionId, MinionJobState)> {
        self.states
            .iter()
            .map(|(minion, change)| (minion, change.state))
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
        &mut self,
        after: Option<&(i64, MinionId)>,
        most: usize,
    ) -> Vec<UnwrittenState> {
        let first = after.map_or(i64::MIN, |(job, _)| *job);
        let mut states = Vec::new();
        for job in self.changed.range(first..) {
            let Some(opened) = self.jobs.get_mut(job) else {
                continue;
            };
            let after = after.filter(|(first, _)| first == job);
            let from = after.map_or(Bound::Unbounded, |(_, minion)| Bound::Excluded(minion));
            let left = most.saturating_sub(states.len());
            let range = (from, Bound::Unbounded);
            let of_job = opened.unwritten.states.range_mut::<MinionId, _>(range);
            let of_job = of_job.take(left);
            states.extend(of_job.map(|(minion, change)| change.given_out(*job, minion)));
            if states.len() == most {
                break;
            }
        }
        states
    }

    /// Whether a state has to be written that no minion reports again, or a job is over but for what has to be written.
    pub(crate) fn has_urgent(&self) -> bool {
        let mut jobs = self.changed.iter().filter_map(|job| self.jobs.get(job));
        jobs.any(|job| {
            let mut states = job.unwritten.iter();
            job.minions.is_empty() || states.any(|(_, state)| is_urgent(state))
        })
    }

    /// Returns all states that have to be written and that no minion reports again.
    pub(crate) fn unwritten_urgent(&mut self) -> Vec<UnwrittenState> {
        let mut urgent = Vec::new();
        for job in &self.changed {
            let Some(opened) = self.jobs.get_mut(job) else {
                continue;
            };
            let states = opened.unwritten.states.iter_mut();
            let states = states.filter(|(_, change)| is_urgent(change.state));
            urgent.extend(states.map(|(minion, change)| change.given_out(*job, minion)));
        }
        urgent
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
        let is_last = |change: &Change| change.number == written.change;
        if states.get(&written.minion).is_some_and(is_last) {
            states.remove(&written.minion);
            if states.is_empty() {
                self.changed.remove(&written.job);
            }
            self.leave_if_over(written.job);
        }
    }
}
