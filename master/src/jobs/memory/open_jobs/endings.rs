//! The ends of offers: by the clock, the expiry ack of a minion, a cancellation, or a deleted key.

use std::collections::BTreeSet;

use saline_messages::{Jid, MasterTime, MinionId, MinionJobState};

use super::jobs_of_minion::note_open;
use super::{ACK_AWAITED, Expiries, OpenJob, OpenJobs, is_to_be_offered};
use crate::jid;
use crate::jobs::memory::batch_progress::BatchStop;

/// How long a withdrawal is remembered for jobs that are being published, in milliseconds.
const WITHDRAWAL_KEPT: MasterTime = 600_000;

impl OpenJobs {
    /// Cancels a job: it is handed over to nobody any more. Returns the minions to which it was not handed over yet.
    pub(crate) fn cancel(&mut self, job: i64, now: MasterTime) -> Vec<MinionId> {
        let Some(opened) = self.jobs.get_mut(&job) else {
            return Vec::new();
        };
        self.cancelled.insert(job);
        if let Some(batch) = &mut opened.batch {
            batch.slots.stop(BatchStop::Cancelled);
        }
        let queued = opened.minions_in(is_to_be_offered);
        for minion in &queued {
            self.change(job, minion, MinionJobState::Cancelled, now, false);
        }
        queued
    }

    /// Ends every open offer of a minion whose key is gone. Returns the jobs.
    pub(crate) fn withdraw(&mut self, minion: &MinionId, now: MasterTime) -> Vec<Jid> {
        let is_old = |(at, _): &(MasterTime, MinionId)| at.saturating_add(WITHDRAWAL_KEPT) < now;
        while self.withdrawals.front().is_some_and(is_old) {
            self.withdrawals.pop_front();
        }
        self.withdrawals.push_back((now, minion.clone()));
        let open = self.open.get(minion);
        let open: Vec<i64> = open.map_or_else(Vec::new, |jobs| jobs.all.iter().copied().collect());
        let withdrawn = open
            .into_iter()
            .filter(|job| self.change(*job, minion, MinionJobState::Withdrawn, now, true));
        withdrawn.map(jid::from_micros).collect()
    }

    /// Returns the jobs that are queued for a minion, or wait for one in a batch.
    pub(crate) fn queued(&self) -> Vec<i64> {
        let waits = |job: &OpenJob| {
            let mut minions = job.minions.values();
            minions.any(|open| is_to_be_offered(open.state))
        };
        let queued = self.jobs.iter().filter(|(_, job)| waits(job));
        queued.map(|(number, _)| *number).collect()
    }

    /// Withdraws a job from the minions that it is queued for, or waits for in a batch. Returns them.
    pub(crate) fn withdraw_queued(&mut self, job: i64, now: MasterTime) -> Vec<MinionId> {
        let opened = self.jobs.get(&job);
        let queued = opened.map_or_else(Vec::new, |job| job.minions_in(is_to_be_offered));
        let withdrawn = queued.into_iter();
        withdrawn
            .filter(|minion| self.change(job, minion, MinionJobState::Withdrawn, now, true))
            .collect()
    }

    /// Returns the minions whose keys have gone since `resolved`.
    pub(crate) fn gone_since(&self, resolved: MasterTime) -> BTreeSet<MinionId> {
        let since = self.withdrawals.iter().rev();
        let since = since.take_while(|(at, _)| *at >= resolved);
        since.map(|(_, minion)| minion.clone()).collect()
    }

    /// Ends the offers of a job to minions whose keys have gone since `resolved`, when the job's target was
    /// compared with the keys: the withdrawal did not find the job yet.
    pub(crate) fn withdraw_late(&mut self, job: i64, resolved: MasterTime, now: MasterTime) {
        for minion in self.gone_since(resolved) {
            self.change(job, &minion, MinionJobState::Withdrawn, now, true);
        }
    }

    /// Takes the expiry ack of a minion for jobs that expire until `until`: what it has not begun is over, in the
    /// state that `verdict` gives for the expiry. Returns what has changed.
    pub(crate) fn settle(
        &mut self,
        minion: &MinionId,
        until: MasterTime,
        verdict: impl Fn(MasterTime) -> MinionJobState,
    ) -> Vec<(Jid, MinionJobState)> {
        let due: Vec<(i64, MinionJobState)> = self
            .open_jobs(minion, i64::MIN)
            .filter(|(_, job, state)| *state == MinionJobState::Offered && job.expires <= until)
            .map(|(number, job, _)| (number, verdict(job.expires)))
            .collect();
        let settled = due
            .into_iter()
            .filter(|(job, to)| self.change(*job, minion, *to, 0, false));
        settled
            .map(|(job, to)| (jid::from_micros(job), to))
            .collect()
    }

    /// Looks at the clock: what was queued and has expired by `now` is over, and jobs leave that wait
    /// for the expiry acks of minions only.
    pub(crate) fn expire(&mut self, now: MasterTime) -> Expiries {
        let mut due = Vec::new();
        while self.expiries.first().is_some_and(|(at, _)| *at <= now) {
            due.extend(self.expiries.pop_first().map(|(_, job)| job));
        }
        due.sort_unstable();
        let mut found = Expiries::default();
        for job in due {
            let Some(opened) = self.jobs.get_mut(&job) else {
                continue;
            };
            opened.looked_at = None;
            #[cfg(feature = "chaos")]
            if saline_daemon::sabotage::is_on("expire-running") {
                self.expire_running(job, &mut found);
            }
            let Some(opened) = self.jobs.get_mut(&job) else {
                continue;
            };
            for minion in opened.minions_in(is_to_be_offered) {
                self.change(job, &minion, MinionJobState::Expired, now, false);
                found.expired.push((jid::from_micros(job), minion));
            }
            self.expire_offers(job, now, &mut found);
        }
        found
    }

    /// Has the offers of an expired job leave whose minions did not acknowledge the expiry for long.
    fn expire_offers(&mut self, job: i64, now: MasterTime, found: &mut Expiries) {
        let Some(opened) = self.jobs.get_mut(&job) else {
            return;
        };
        let offered = opened.minions_in(|state| state == MinionJobState::Offered);
        let is_waited_for = opened.expires.saturating_add(ACK_AWAITED) > now;
        let mut is_left = false;
        for minion in offered {
            // The disk tells nothing of what is not written.
            if is_waited_for || opened.unwritten.get(&minion).is_some() {
                is_left = true;
                continue;
            }
            opened.minions.remove(&minion);
            self.offers -= 1;
            note_open(&mut self.open, &minion, job, None);
            found.unacked.push(minion);
        }
        if is_left {
            let again = now.saturating_add(ACK_AWAITED);
            opened.looked_at = Some(again);
            self.expiries.insert((again, job));
        }
        self.leave_if_over(job);
    }

    /// Breaks the promise that a job which runs does not expire.
    #[cfg(feature = "chaos")]
    fn expire_running(&mut self, job: i64, found: &mut Expiries) {
        let Some(opened) = self.jobs.get_mut(&job) else {
            return;
        };
        for minion in opened.minions_in(|state| state == MinionJobState::Running) {
            opened.minions.remove(&minion);
            opened
                .unwritten
                .insert(&minion, MinionJobState::Expired, true);
            self.changed.insert(job);
            self.offers -= 1;
            note_open(&mut self.open, &minion, job, None);
            found.expired.push((jid::from_micros(job), minion));
        }
        self.leave_if_over(job);
    }
}
