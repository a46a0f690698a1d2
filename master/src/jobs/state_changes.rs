//! Changes the states of minions in jobs: of open jobs in memory, and of those that are over on the disk.

use std::sync::Arc;

use rusqlite::Connection;
use saline_messages::{Jid, MasterTime, MinionId, MinionJobState};

use super::disk::writer::StoreFile;
use super::flush::write_row;
use super::memory::states::{self, States};
use super::publish::written_states;
use super::{JobStore, StoreError, jid, lock, lookup, may_become, returns};

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
            open.has(job).then(|| open.set(job, minion, state, now))
        };
        match set {
            Some(set) => Ok(set),
            None => self.set_in_closed(job, minion, state, now).await,
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

    /// Returns how many of these jobs are under way no more, or are no jobs.
    pub fn closed_among(&self, jids: &[&Jid]) -> usize {
        let open = lock(&self.open);
        let is_open = |jid: &Jid| jid::to_micros(jid).is_some_and(|job| open.has(job));
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

    /// Changes a state in a job that is over: it is heard late that a minion has begun in time.
    async fn set_in_closed(
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
        let act = move |connection: &Connection| {
            let Some((packed, expires)) = written_states(connection, job)? else {
                return Ok(None);
            };
            let record = record.as_ref();
            let from =
                states::find(&packed, &minion)?.map(|from| states::at(now, expires, from, record));
            if !from.is_some_and(|from| may_become(from, to))
                || returns::is_stored(connection, job, &minion)?
            {
                return Ok(None);
            }
            let mut states = states::decode(&packed)?;
            if let Some((_, state)) = states.iter_mut().find(|(id, _)| *id == minion) {
                *state = to;
            }
            write_row(connection, job, &states)?;
            returns::note_returned(connection, job, None, &mut states)?;
            let is_cancelled = lookup::is_cancelled(connection, job)?;
            for (_, state) in &mut states {
                *state = match states::at(now, expires, *state, None) {
                    MinionJobState::Expired if is_cancelled => MinionJobState::Cancelled,
                    MinionJobState::Unconfirmed => MinionJobState::Offered,
                    told => told,
                };
            }
            Ok(Some((states, expires)))
        };
        let (open, partitions) = (Arc::clone(&self.open), Arc::clone(&self.partitions));
        let settled = move |result: &Result<Option<(States, MasterTime)>, StoreError>| {
            let mut open = lock(&open);
            match result {
                // Another minion's late report has brought it back already, and may have changed since.
                Ok(Some(_)) if open.has(job) => {
                    open.set(job, &late, to, now);
                }
                Ok(Some((states, expires))) if partitions.has(start) => {
                    open.insert(job, *expires, states.clone(), now);
                    open.is_written_as_running(job);
                }
                _ => {}
            }
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
