//! Changes of a minion's state in a job. Each updates the jobs of the minion, its batch, and the states to be written.

use saline_messages::{MasterTime, MinionId, MinionJobState};

use super::jobs_of_minion::note_open;
use super::{OpenJobs, OpenMinion, may_become};

impl OpenJobs {
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

    /// Notes that the return of a minion is stored, and whether the job failed there.
    pub(crate) fn returned(&mut self, job: i64, minion: &MinionId, failed: bool, now: MasterTime) {
        self.change_to(job, minion, MinionJobState::Returned, failed, now, false);
    }

    /// Changes a state. `is_written` says that the state must be written, since nothing else tells it after a crash.
    pub(super) fn change(
        &mut self,
        job: i64,
        minion: &MinionId,
        to: MinionJobState,
        now: MasterTime,
        is_written: bool,
    ) -> bool {
        self.change_to(job, minion, to, false, now, is_written)
    }

    pub(super) fn change_to(
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
        let Some(from) = opened.find(minion) else {
            return false;
        };
        if !may_become(from, to) {
            return false;
        }
        self.changes[to as usize] += 1;
        self.state_changed.notify_waiters();
        if let Some(batch) = &mut opened.batch {
            batch.changed(minion, to, failed, now);
            self.batch_changed.notify_one();
        }
        let before = opened.minions.get(minion).copied();
        let is_written_as_running = before.is_some_and(|open| open.is_written_as_running);
        let is_left = match to {
            // The stored return tells this state. A start must not read that the minion still runs the job.
            MinionJobState::Returned => {
                is_written_as_running || !opened.unwritten.take_back(minion)
            }
            // A state that waits to be written must not overwrite the present one.
            _ => is_written || opened.unwritten.get(minion).is_some(),
        };
        if is_left {
            opened.unwritten.insert(minion, to, is_written_as_running);
            self.changed.insert(job);
        } else if opened.unwritten.is_empty() {
            self.changed.remove(&job);
        }
        match to.is_final() {
            true => {
                opened.minions.remove(minion);
                self.offers -= usize::from(before.is_some());
            }
            false => {
                let open = OpenMinion {
                    state: to,
                    is_written_as_running,
                };
                opened.minions.insert(minion.clone(), open);
                self.offers += usize::from(before.is_none());
            }
        }
        note_open(&mut self.open, minion, job, (!to.is_final()).then_some(to));
        if to == MinionJobState::Running {
            self.give_up_oldest(minion, now);
        }
        self.leave_if_over(job);
        true
    }
}
