//! Writes the states that have changed since they were written, and then the records of minions.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::Connection;
use saline_messages::{MasterTime, MinionJobState};

use super::memory::open_jobs::{OpenJobs, UnwrittenState};
use super::tables::minion_states;
use super::{JobStore, StoreError, lock};
use crate::disk::writer::StoreFile;

/// How often the expiry acks of all minions are written, in milliseconds; one that decides about a state goes
/// with the next flush.
const RECORDS_WRITTEN: MasterTime = 60_000;

/// How long states that minions report again after a crash are gathered, in milliseconds: that a minion runs a job, or no longer
/// does. SQLite writes whole pages, so that gathered states cost less.
const GATHERED: MasterTime = 15_000;

/// The number of states that are written in one call.
pub(super) const FLUSHED: usize = 4_096;

/// About the bytes of a state in memory.
const STATE_BYTES: usize = 64;

/// The passes over all states that have changed, each of which ends with the records of minions.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// The number of the last one that has begun.
    begun: u64,
    /// When it has begun.
    begun_at: MasterTime,
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
    /// Writes states that have changed as [`flush`](Self::flush) does, when it is time: each second those that nobody reports
    /// again, and jobs that are over; every fifteen seconds the others.
    ///
    /// # Errors
    /// As for [`flush`](Self::flush).
    ///
    /// # Cancel safety
    /// As for [`flush`](Self::flush).
    pub async fn flush_due(&self) -> Result<(), StoreError> {
        let is_going_on = lock(&self.flushed).is_some();
        let gathered = self.now().saturating_sub(lock(&self.passes).begun_at);
        let is_due = is_going_on
            || gathered >= GATHERED
            || self.records.has_unwritten_keys()
            || lock(&self.open).has_urgent();
        match is_due {
            true => self.flush().await.map(|_| ()),
            false => self.remove_unneeded().await,
        }
    }

    /// Writes the states by which jobs were handed over to minions until now, before the minions hear of it. Many
    /// callers at once share one pass.
    ///
    /// # Errors
    /// When SQLite fails. A later call writes what this one did not.
    ///
    /// # Cancel safety
    /// A later call writes the states that this one did not.
    pub(super) async fn flush_hand_overs(&self) -> Result<(), StoreError> {
        let asked = lock(&self.hand_overs).begun;
        // Others write no older state of the same minion meanwhile.
        let _turn = self.flushing.acquire().await;
        if lock(&self.hand_overs).ended > asked {
            return Ok(());
        }
        lock(&self.hand_overs).begun += 1;
        let handed = lock(&self.open).unwritten_urgent();
        self.write_states(handed).await?;
        let passes = &mut lock(&self.hand_overs);
        passes.ended = passes.begun;
        Ok(())
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
        *lock(&self.flushed) = None;
        while !self.flush_some().await? {}
        Ok(())
    }

    /// Writes states that have changed since they were written: 4,096 of them, and in the next call
    /// those after them. Returns whether it came to the last one.
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
            // From the first one on, so that no expiry ack is written before a state that failed.
            *lock(&self.flushed) = None;
        }
        flushed
    }

    async fn flush_batch(&self) -> Result<bool, StoreError> {
        let after = lock(&self.flushed).clone();
        if after.is_none() {
            {
                let passes = &mut lock(&self.passes);
                passes.begun += 1;
                passes.begun_at = self.now();
            }
            self.gather_records();
            if self.records.has_unwritten_keys() {
                // A job may be on its way whose target was resolved before a key went: what is withdrawn of it then
                // is among the states that follow.
                let nothing = |_: &Result<(), StoreError>| {};
                let passed = self.writer.call(StoreFile::Newest, 0, |_| Ok(()), nothing);
                passed.await?;
            }
        }
        let unwritten = lock(&self.open).unwritten(after.as_ref(), FLUSHED);
        let is_last = unwritten.len() < FLUSHED;
        let last = unwritten.last().filter(|_| !is_last);
        *lock(&self.flushed) = last.map(|last| (last.job, last.minion.clone()));
        self.write_states(unwritten).await?;
        if is_last {
            self.remove_unneeded().await?;
            // Kept until they are written: the future may be dropped meanwhile.
            let copies = lock(&self.unwritten_records).clone();
            self.records.write(copies).await?;
            lock(&self.unwritten_records).clear();
            let passes = &mut lock(&self.passes);
            passes.ended = passes.begun;
        }
        Ok(is_last)
    }

    /// Removes the rows of states that jobs and returns no longer need.
    async fn remove_unneeded(&self) -> Result<(), StoreError> {
        self.remove_unneeded_parts().await?;
        self.remove_unneeded_secrets().await
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

    async fn write_states(&self, unwritten: Vec<UnwrittenState>) -> Result<(), StoreError> {
        let mut batches: BTreeMap<i64, Vec<UnwrittenState>> = BTreeMap::new();
        for unwritten in unwritten {
            match self.partitions.holding(unwritten.job) {
                Some(start) => batches.entry(start).or_default().push(unwritten),
                // Its partition was pruned meanwhile.
                None => forget(&mut lock(&self.open), unwritten.job),
            }
        }
        for (start, batch) in batches {
            self.write_batch(start, batch).await?;
        }
        Ok(())
    }

    /// Writes states of jobs of one partition.
    async fn write_batch(&self, start: i64, batch: Vec<UnwrittenState>) -> Result<(), StoreError> {
        let (open, bytes) = (Arc::clone(&self.open), batch.len() * STATE_BYTES);
        let records = Arc::clone(&self.records);
        let batch = Arc::new(batch);
        let states = Arc::clone(&batch);
        let act = move |connection: &Connection| {
            let mut all = states.iter();
            all.try_for_each(|unwritten| {
                let UnwrittenState {
                    job, minion, state, ..
                } = unwritten;
                let heartbeats = match state {
                    MinionJobState::Offered => records.heartbeats_heard(minion),
                    _ => 0,
                };
                minion_states::write(connection, *job, minion, *state, heartbeats)
            })
        };
        let settled = move |result: &Result<(), StoreError>| {
            let mut open = lock(&open);
            for unwritten in batch.iter() {
                match result {
                    Ok(()) => open.written(unwritten),
                    Err(StoreError::Removed) => forget(&mut open, unwritten.job),
                    Err(_) => {}
                }
            }
        };
        let place = StoreFile::Partition(start);
        match self.writer.call(place, bytes, act, settled).await {
            // It was pruned meanwhile.
            Err(StoreError::Removed) => Ok(()),
            written => written,
        }
    }
}

/// Forgets a job that is not on the disk any more.
fn forget(open: &mut OpenJobs, job: i64) {
    open.forget(job..job + 1, &[]);
}
