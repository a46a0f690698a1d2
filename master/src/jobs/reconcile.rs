//! Takes what minions say of their jobs: at the start of a session, and with every heartbeat.

use std::collections::BTreeSet;

use saline_messages::{
    ExpiryAck, Jid, JobAccount, Known, MAX_ACCOUNTS, MasterTime, MinionId, MinionJobState, StartId,
};

use crate::wire_time::milliseconds;

use super::{JobStore, MinionRecord, StoreError, jid, lock};

/// The number of heartbeats for which another copy of a minion must be silent to count as gone: 15 minutes
/// with the usual ones. One that lives asks for its session every minute.
const DUPLICATE_GONE: u64 = 60;

/// How a start of a minion goes on from what the store knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lineage {
    /// The store knows no start of the minion.
    New,
    /// The start is the last known one.
    Known,
    /// The start is the successor of the last known one.
    Continued,
    /// The start follows an earlier one, or none: a copy of the minion, or a disk that was restored or emptied.
    Other,
}

/// The start of a minion that reconciles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReconcilingStart {
    /// The id of this start of the minion.
    pub start: StartId,
    /// The starts before it from the last one that was reconciled on, as the minion's disk has them.
    pub predecessors: Vec<StartId>,
    /// Whether the minion may have forgotten what it noted last before this start.
    pub power_lost: bool,
    /// Whether another start of the minion may live beside it.
    pub beside: bool,
    /// The number of heartbeats that the minion's spool has noted.
    pub heartbeats_noted: u64,
    /// That number when the start began.
    pub heartbeats_before: u64,
}

/// A change of the state of a minion in a job.
pub type StateChange = (Jid, MinionJobState);

impl JobStore {
    /// Returns what the store remembers of a minion.
    pub fn minion_record(&self, minion: &MinionId) -> Option<MinionRecord> {
        self.records.get(minion)
    }

    /// Returns how a start goes on from what the store knows.
    pub fn lineage(&self, minion: &MinionId, start: &ReconcilingStart) -> Lineage {
        match self.records.get(minion) {
            None => Lineage::New,
            Some(record) if record.start == StartId::default() => Lineage::New,
            Some(record) if record.start == start.start => Lineage::Known,
            Some(record) if start.predecessors.contains(&record.start) && !start.beside => {
                Lineage::Continued
            }
            Some(_) => Lineage::Other,
        }
    }

    /// Returns the jobs that a reconciling minion is to account for, after `after`: those that the store
    /// has as running, and if the minion may have forgotten some, those that were handed over to it.
    pub fn to_account_for(
        &self,
        minion: &MinionId,
        start: &ReconcilingStart,
        after: Option<&Jid>,
    ) -> Vec<Jid> {
        let after = after.and_then(jid::to_micros).unwrap_or(i64::MIN);
        let forgetful = self.is_forgetful(minion, start);
        let open = lock(&self.open).handed_over(minion, after);
        let asked = open
            .into_iter()
            .filter(|(_, state)| forgetful || *state == MinionJobState::Running);
        let asked = asked.take(MAX_ACCOUNTS);
        asked.map(|(job, _)| jid::from_micros(job)).collect()
    }

    /// Returns the time since which another copy of a minion must be silent to count as gone.
    pub(super) fn duplicates_before(&self) -> MasterTime {
        let silence = milliseconds(self.settings.heartbeat).saturating_mul(DUPLICATE_GONE);
        self.now().saturating_sub(silence)
    }

    /// Whether the disk or the memory of the minion was put back to a state before its last heartbeat.
    pub fn was_put_back(&self, minion: &MinionId, start: &ReconcilingStart) -> bool {
        let heard = self.records.get(minion);
        let heard = heard.map_or(0, |record| record.heartbeats_noted);
        match self.lineage(minion, start) {
            // What was lost before this start was settled when it reconciled.
            Lineage::Known => start.heartbeats_noted < heard,
            // Since it began it may have sent heartbeats to another master.
            Lineage::Continued => start.heartbeats_before < heard,
            Lineage::New | Lineage::Other => false,
        }
    }

    /// Whether the minion has not reconciled since the store was put back from a copy.
    fn is_in_copy_alone(&self, minion: &MinionId) -> bool {
        self.records
            .get(minion)
            .is_some_and(|record| record.is_copy)
    }

    /// Whether a job that the minion does not know may have been run by it.
    fn is_forgetful(&self, minion: &MinionId, start: &ReconcilingStart) -> bool {
        let was_put_back = self.was_put_back(minion, start);
        match self.lineage(minion, start) {
            Lineage::Known => was_put_back,
            // That its disk was put back too may have been told to the master before, and with a copy of the store nobody knows.
            Lineage::Continued => start.power_lost || was_put_back || self.is_in_copy_alone(minion),
            // What was handed over to a minion of which the store knows no start was handed over before the store
            // was put back from a copy.
            Lineage::New | Lineage::Other => true,
        }
    }

    /// Takes what a minion knows of jobs. With `start`, it reconciles. Returns the states that have
    /// changed.
    ///
    /// # Errors
    /// When SQLite fails. Some of the states may be changed.
    ///
    /// # Cancel safety
    /// A dropped call may have changed some of the states. It may be repeated.
    pub async fn take_accounts(
        &self,
        minion: &MinionId,
        start: Option<&ReconcilingStart>,
        accounts: &[JobAccount],
    ) -> Result<Vec<StateChange>, StoreError> {
        let forgetful = start.is_some_and(|start| self.is_forgetful(minion, start));
        let is_other = start.is_some_and(|start| self.lineage(minion, start) == Lineage::Other);
        let record = self.records.get(minion);
        let mut changes = Vec::new();
        for account in accounts {
            let Some(job) = jid::to_micros(&account.jid) else {
                continue;
            };
            let created = u64::try_from(job / 1_000).unwrap_or(0);
            // Another copy of the minion may run it.
            let speaks = !is_other
                && record.as_ref().is_none_or(|record| {
                    record.is_authoritative_for(created, self.duplicates_before())
                });
            let states: &[MinionJobState] = match account.known {
                Known::Running | Known::Finished => &[MinionJobState::Running],
                Known::Delivered => &[MinionJobState::ReturnedAndLost],
                Known::Barred if start.is_none() && self.is_cancelled(job) => {
                    &[MinionJobState::Cancelled]
                }
                // It told an earlier master that it does not know the job.
                Known::Barred if start.is_none() => &[MinionJobState::MayHaveRun],
                Known::Forgotten => &[MinionJobState::MayHaveRun],
                Known::No | Known::Barred if speaks && forgetful => {
                    &[MinionJobState::LostTrack, MinionJobState::MayHaveRun]
                }
                Known::No | Known::Barred if speaks && start.is_some() => {
                    &[MinionJobState::LostTrack]
                }
                Known::No | Known::Barred if forgetful => &[MinionJobState::MayHaveRun],
                Known::No | Known::Barred => &[],
            };
            for state in states {
                if self.set_state(&account.jid, minion, *state).await? {
                    changes.push((account.jid.clone(), *state));
                    break;
                }
            }
        }
        Ok(changes)
    }

    fn is_cancelled(&self, job: i64) -> bool {
        lock(&self.open).is_cancelled(job)
    }

    /// Ends a reconciliation: from now on the minion's expiry acks count. What was changed is on the disk
    /// before the start is: what the minion said it does not know must not be handed over to it after a crash.
    ///
    /// # Errors
    /// When SQLite fails; the minion should reconcile again.
    ///
    /// # Cancel safety
    /// The call may be repeated.
    pub async fn finish_reconciliation(
        &self,
        minion: &MinionId,
        start: &ReconcilingStart,
    ) -> Result<(), StoreError> {
        let now = self.now();
        let lineage = self.lineage(minion, start);
        let forgetful = self.is_forgetful(minion, start);
        let duplicates_before = self.duplicates_before();
        let first = MinionRecord::new(start.start, now);
        // In one step: its key may be deleted meanwhile.
        self.records.put(minion, first, |record| {
            if lineage == Lineage::Other {
                record.duplicate_seen = now;
            } else if record.has_no_duplicate_since(duplicates_before) {
                record.duplicate_seen = 0;
            }
            if forgetful {
                record.skip(now);
            }
            (record.start, record.is_copy) = (start.start, false);
            record.heartbeats_noted = start.heartbeats_noted;
        });
        self.flush_all().await
    }

    /// Gives up what was handed over until `until` to another start of a minion, while this one accounted for what came
    /// before: the other one may have begun it. `until` is the time at which this start was seated. Returns what has changed,
    /// for the minion to bar.
    ///
    /// # Errors
    /// When SQLite fails. Some of the states may be changed.
    ///
    /// # Cancel safety
    /// A dropped call may have changed some of the states. It may be repeated.
    pub async fn give_up_handed_over(
        &self,
        minion: &MinionId,
        until: MasterTime,
    ) -> Result<Vec<StateChange>, StoreError> {
        let before_seat =
            |job: i64| u64::try_from(job / 1_000).is_ok_and(|created| created < until);
        let handed = lock(&self.open).handed_over(minion, i64::MIN);
        let offered = handed
            .into_iter()
            .filter(|(job, state)| *state == MinionJobState::Offered && before_seat(*job));
        let (mut changes, state) = (Vec::new(), MinionJobState::MayHaveRun);
        for (job, _) in offered {
            let jid = jid::from_micros(job);
            if self.set_state(&jid, minion, state).await? {
                changes.push((jid, state));
            }
        }
        Ok(changes)
    }

    /// Takes a minion's expiry ack. Returns the states that have changed.
    ///
    /// # Errors
    /// When SQLite fails. A later ack says the same again.
    ///
    /// # Cancel safety
    /// A dropped call may have taken a part. It may be repeated.
    pub async fn take_expiry_ack(
        &self,
        minion: &MinionId,
        ack: &ExpiryAck,
    ) -> Result<Vec<StateChange>, StoreError> {
        let now = self.now();
        let until = ack.until.min(now);
        let Some(record) = self.records.get(minion) else {
            return Ok(Vec::new());
        };
        if until <= record.expiry_acked_until {
            return Ok(Vec::new());
        }
        let mut changes = Vec::new();
        // Before the expiry ack: a job that was begun must not be taken for expired.
        for jid in ack.begun.iter().take(MAX_ACCOUNTS) {
            if self.set_state(jid, minion, MinionJobState::Running).await? {
                changes.push((jid.clone(), MinionJobState::Running));
            }
        }
        self.records.change(minion, |record| {
            record.settle(ack.after, until);
            let verdict = |expires| {
                record
                    .verdict(expires)
                    .unwrap_or(MinionJobState::Unconfirmed)
            };
            let settled = lock(&self.open).settle(minion, until, verdict);
            let soon = !settled.is_empty();
            changes.extend(settled);
            soon
        });
        Ok(changes)
    }

    /// Takes how many heartbeats the spool of a minion has noted, as it says with every heartbeat.
    pub fn take_heartbeats_noted(&self, minion: &MinionId, heartbeats_noted: u64) {
        if self
            .records
            .get(minion)
            .is_some_and(|record| record.heartbeats_noted < heartbeats_noted)
        {
            // It decides about open jobs alone.
            let soon = lock(&self.open).has_minion(minion);
            self.records.change(minion, |record| {
                record.heartbeats_noted = record.heartbeats_noted.max(heartbeats_noted);
                soon
            });
        }
    }

    /// Whether the store wants to ask a minion again what it knows: another copy of it has been silent
    /// for so long that there is none.
    pub fn wants_reconciliation(&self, minion: &MinionId) -> bool {
        self.records.get(minion).is_some_and(|record| {
            record.duplicate_seen > 0 && record.has_no_duplicate_since(self.duplicates_before())
        })
    }

    /// Returns the jobs that wait for the minion: it was handed them, or its turn in a batch has not come.
    pub fn waiting_for(&self, minion: &MinionId) -> Vec<Jid> {
        let open = lock(&self.open).waiting_for(minion);
        open.into_iter().map(jid::from_micros).collect()
    }

    /// Grants a minion a job that it claims, unless it is not offered to it, or is a batch and it is not the
    /// minion's turn. What was queued for it, or waited for it, is handed over.
    ///
    /// # Errors
    /// When SQLite fails; nothing was granted.
    ///
    /// # Cancel safety
    /// The call may be repeated.
    pub async fn claim(&self, minion: &MinionId, jid: &Jid) -> Result<bool, StoreError> {
        let Some(job) = jid::to_micros(jid) else {
            return Ok(false);
        };
        let now = self.now();
        let (granted, unwritten) = {
            let mut open = lock(&self.open);
            (open.claim(job, minion, now), open.is_unwritten(job, minion))
        };
        if granted && unwritten {
            self.flush_hand_overs().await?;
        }
        Ok(granted)
    }

    /// Returns the minions to which a job was not offered when it was published, since their keys have gone
    /// after `resolved`, the time at which its target was resolved.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn withdrawn_late(
        &self,
        jid: &Jid,
        resolved: MasterTime,
    ) -> Result<BTreeSet<MinionId>, StoreError> {
        let gone = lock(&self.open).gone_since(resolved);
        let mut withdrawn = BTreeSet::new();
        for minion in gone {
            if self.state_of(jid, &minion).await? == Some(MinionJobState::Withdrawn) {
                withdrawn.insert(minion);
            }
        }
        Ok(withdrawn)
    }
}
