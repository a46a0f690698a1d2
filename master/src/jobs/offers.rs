//! Changes the states of minions in jobs, and writes what has changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::{Connection, params};
use saline_messages::{Jid, MasterTime, MinionId, MinionJobState};

use super::disk::writer::Place;
use super::memory::open_jobs::ChangedJob;
use super::memory::states::{self, States};
use super::publish::written_states;
use super::{JobStore, StoreError, jid, lock, lookup, may_become, returns};

/// How often the expiry acks of all minions are written, in milliseconds; one that decides about a state goes
/// with the next flush.
const RECORDS_WRITTEN: MasterTime = 60_000;

/// The number of jobs whose states are written in one call.
const FLUSHED: usize = 256;

/// The passes over all states that have changed, each of which ends with the records of minions.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// The number of the last one that has begun.
    begun: u64,
    /// The number of the last one that has ended well.
    ended: u64,
}

#[cfg(test)]
impl Passes {
    /// Returns the number of the last one that has ended well.
    pub(super) fn ended(&self) -> u64 {
        self.ended
    }
}

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

    /// Writes all states that have changed until now, and then the records of minions. Many callers at once share
    /// one pass.
    ///
    /// # Errors
    /// When SQLite fails. A later call writes what this one did not.
    ///
    /// # Cancel safety
    /// A later call writes the states that this one did not.
    pub async fn flush_all(&self) -> Result<(), StoreError> {
        let asked = lock(&self.passes).begun;
        let _turn = self.flushing.acquire().await;
        if lock(&self.passes).ended > asked {
            return Ok(());
        }
        self.flushed.store(i64::MIN, Ordering::Relaxed);
        while !self.flush_some().await? {}
        Ok(())
    }

    /// Writes states that have changed since they were written: those of 256 jobs, and in the next call
    /// those of the jobs after them. Returns whether it came to the last one.
    ///
    /// # Errors
    /// When SQLite fails. A later call writes what this one did not.
    ///
    /// # Cancel safety
    /// A later call writes the states that this one did not.
    pub async fn flush(&self) -> Result<bool, StoreError> {
        let _turn = self.flushing.acquire().await;
        self.flush_some().await
    }

    async fn flush_some(&self) -> Result<bool, StoreError> {
        let flushed = self.flush_batch().await;
        if flushed.is_err() {
            // From the first job on, so that no expiry ack is written before a state that failed.
            self.flushed.store(i64::MIN, Ordering::Relaxed);
        }
        flushed
    }

    async fn flush_batch(&self) -> Result<bool, StoreError> {
        let after = self.flushed.load(Ordering::Relaxed);
        if after == i64::MIN {
            lock(&self.passes).begun += 1;
            self.gather_records();
            if self.records.has_unwritten_keys() {
                // A job may be on its way whose target was resolved before a key went: what is withdrawn of it then
                // is among the states that follow.
                let nothing = |_: &Result<(), StoreError>| {};
                let passed = self.writer.call(Place::Newest, 0, |_| Ok(()), nothing);
                passed.await?;
            }
        }
        let changed = lock(&self.open).changed(after, FLUSHED);
        let is_last = changed.len() < FLUSHED;
        let last = changed.last().map_or(i64::MIN, |changed| changed.job);
        let next = if is_last { i64::MIN } else { last };
        self.flushed.store(next, Ordering::Relaxed);
        let mut batches: BTreeMap<i64, Vec<ChangedJob>> = BTreeMap::new();
        for changed in changed {
            match self.partitions.holding(changed.job) {
                Some(start) => batches.entry(start).or_default().push(changed),
                // Its partition was pruned meanwhile.
                None => lock(&self.open).forget(changed.job..changed.job + 1),
            }
        }
        for (start, batch) in batches {
            self.write_states(start, batch).await?;
        }
        if is_last {
            self.remove_unreturned_parts().await?;
            self.remove_unneeded_secrets().await?;
            // Kept until they are written: the future may be dropped meanwhile.
            let copies = lock(&self.unwritten_records).clone();
            self.records.write(copies).await?;
            lock(&self.unwritten_records).clear();
            let passes = &mut lock(&self.passes);
            passes.ended = passes.begun;
        }
        Ok(is_last)
    }

    /// Takes the expiry acks of minions as they are now. They are written when the states that were changed before
    /// are written: a job that was begun must not be taken for expired after a crash.
    fn gather_records(&self) {
        let now = self.now();
        let all = {
            let mut written = lock(&self.records_written);
            let all = now.saturating_sub(*written) >= RECORDS_WRITTEN;
            if all {
                *written = now;
            }
            all
        };
        lock(&self.unwritten_records).extend(self.records.take_unwritten(all));
    }

    async fn write_states(&self, start: i64, batch: Vec<ChangedJob>) -> Result<(), StoreError> {
        let open = Arc::clone(&self.open);
        let packed: Vec<(i64, Vec<u8>, i64)> = batch
            .iter()
            .map(|changed| {
                let states = &changed.states;
                (changed.job, states::encode(states), running(states))
            })
            .collect();
        let bytes = packed.iter().map(|(_, states, _)| states.len()).sum();
        let act = move |connection: &Connection| {
            let mut all = packed.iter();
            all.try_for_each(|(job, states, running)| update(connection, *job, states, *running))
        };
        let settled = move |result: &Result<(), StoreError>| {
            let mut open = lock(&open);
            for changed in &batch {
                match result {
                    Ok(()) => open.written(changed),
                    Err(StoreError::Removed) => open.forget(changed.job..changed.job + 1),
                    Err(_) => {}
                }
            }
        };
        match self
            .writer
            .call(Place::Partition(start), bytes, act, settled)
            .await
        {
            // It was pruned meanwhile.
            Err(StoreError::Removed) => Ok(()),
            written => written,
        }
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
            update(connection, job, &states::encode(&states), running(&states))?;
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
            .call(Place::Partition(start), 0, act, settled)
            .await
        {
            Err(StoreError::Removed) => Ok(false),
            written => Ok(written?.is_some()),
        }
    }
}

fn running(states: &States) -> i64 {
    let running = states.iter().filter(|(_, s)| *s == MinionJobState::Running);
    running.count() as i64
}

fn update(
    connection: &Connection,
    job: i64,
    states: &[u8],
    running: i64,
) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE jobs SET states = ?2, running = ?3 WHERE jid = ?1")?
        .execute(params![job, states, running])?;
    Ok(())
}
