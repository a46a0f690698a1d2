//! Changes the states of minions in jobs: of open jobs in memory, and of those that are over on the disk.

use std::sync::Arc;

use rusqlite::Connection;
use saline_messages::{Jid, MasterTime, MinionId, MinionJobState};

use super::memory::open_jobs::MinionLookup;
use super::memory::states;
use super::tables::minion_states;
use super::{JobStore, StoreError, jid, lock, may_become};
use crate::disk::writer::StoreFile;

impl JobStore {
    /// Changes the state of a minion in a job if the change is [allowed](may_become). Returns whether it
    /// was. Only [`store_returns`](Self::store_returns) sets `Returned`, so that every minion in that
    /// state has its return. The change is on the disk after the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// When SQLite fails; nothing was changed.
    ///
    /// # Cancel safety
    /// A dropped call may have changed the state or not. It may be repeated.
    pub async fn set_state(
        &self,
        jid: &Jid,
        minion: &MinionId,
        state: MinionJobState,
    ) -> Result<bool, StoreError> {
        let Some(job) = jid::to_micros(jid) else {
            return Ok(false);
        };
        if state == MinionJobState::Returned {
            return Ok(false);
        }
        let now = self.now();
        let set = {
            let mut open = lock(&self.open);
            let is_here = open.lookup(job, minion) != MinionLookup::NotHere;
            is_here.then(|| open.set(job, minion, state, now))
        };
        match set {
            Some(set) => Ok(set),
            None => self.set_on_disk(job, minion, state, now).await,
        }
    }

    /// Marks jobs as running that a minion reports in a heartbeat, at most `most` that were not running before, which
    /// are returned.
    ///
    /// # Errors
    /// When SQLite fails. Some of the jobs may be marked.
    ///
    /// # Cancel safety
    /// A dropped call may have changed the states or not. It may be repeated.
    pub async fn mark_running(
        &self,
        minion: &MinionId,
        jids: &[Jid],
        most: usize,
    ) -> Result<Vec<Jid>, StoreError> {
        let mut begun = Vec::new();
        for jid in jids {
            if begun.len() == most {
                break;
            }
            if self.set_state(jid, minion, MinionJobState::Running).await? {
                begun.push(jid.clone());
            }
        }
        Ok(begun)
    }

    /// Returns how many of `wanted` further jobs the minion may say that it runs, if it may run `most` at a time.
    pub fn may_begin_to_run(&self, minion: &MinionId, wanted: usize, most: usize) -> usize {
        lock(&self.open).may_begin_to_run(minion, wanted, most)
    }

    /// Returns in how many of these jobs the state of the minion is final, or there is none.
    pub fn closed_among(&self, minion: &MinionId, jids: &[&Jid]) -> usize {
        let open = lock(&self.open);
        let is_open = |jid: &Jid| {
            let job = jid::to_micros(jid);
            job.is_some_and(|job| open.lookup(job, minion) != MinionLookup::NotHere)
        };
        jids.iter().filter(|jid| !is_open(jid)).count()
    }

    /// Expires what was queued and never handed over by `now`, and returns it, that of the oldest job
    /// first. Nothing is written: the clock tells it again after a crash. What was handed over expires
    /// [by the expiry ack of its minion](Self::take_expiry_ack).
    pub fn expire(&self, now: MasterTime) -> Vec<(Jid, MinionId)> {
        let found = lock(&self.open).expire(now);
        self.records.note_unacked(found.unacked);
        found.expired
    }

    /// Takes what minions ran that was given up since the last call, because they run more than a master follows.
    pub fn take_given_up(&self) -> Vec<(Jid, MinionId)> {
        lock(&self.open).take_given_up()
    }

    /// Changes a final state: it is heard late that a minion has begun in time.
    async fn set_on_disk(
        &self,
        job: i64,
        minion: &MinionId,
        to: MinionJobState,
        now: MasterTime,
    ) -> Result<bool, StoreError> {
        let Some(start) = self.partitions.holding(job) else {
            return Ok(false);
        };
        let record = self.records.get(minion);
        let (minion, late) = (minion.clone(), minion.clone());
        let known = Arc::clone(&self.open);
        let act = move |connection: &Connection| {
            // Another report has brought it back already, and it may have changed since.
            if lock(&known).lookup(job, &minion) != MinionLookup::NotHere {
                return Ok(None);
            }
            let found = minion_states::find(connection, job, &minion)?;
            let Some((Some(from), expires)) = found else {
                return Ok(None);
            };
            let from = states::at(now, expires, from, record.as_ref());
            if !may_become(from, to) {
                return Ok(None);
            }
            // It is no offer: an offer is in memory.
            minion_states::write(connection, job, &minion, to, 0)?;
            Ok(Some(expires))
        };
        let (open, partitions) = (Arc::clone(&self.open), Arc::clone(&self.partitions));
        let settled = move |result: &Result<Option<MasterTime>, StoreError>| {
            let Ok(Some(expires)) = result else {
                return;
            };
            let mut open = lock(&open);
            if open.lookup(job, &late) != MinionLookup::NotHere {
                // A command before this one in the same transaction has brought it back.
                open.set(job, &late, to, now);
            } else if to == MinionJobState::Running && partitions.holding(job) == Some(start) {
                open.insert_late(job, *expires, &late, now);
            }
            open.state_changed().notify_waiters();
        };
        match self
            .writer
            .call(StoreFile::Partition(start), 0, act, settled)
            .await
        {
            Err(StoreError::Removed) => Ok(false),
            written => Ok(written?.is_some()),
        }
    }
}
