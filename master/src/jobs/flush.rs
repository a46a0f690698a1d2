//! Writes the states that have changed since they were written, and then the records of minions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::{Connection, params};
use saline_messages::{MasterTime, MinionJobState};

use super::disk::writer::StoreFile;
use super::memory::open_jobs::ChangedJob;
use super::memory::states::{self, States};
use super::{JobStore, StoreError, lock};

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
                let passed = self.writer.call(StoreFile::Newest, 0, |_| Ok(()), nothing);
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
            self.remove_unneeded_parts().await?;
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
            .call(StoreFile::Partition(start), bytes, act, settled)
            .await
        {
            // It was pruned meanwhile.
            Err(StoreError::Removed) => Ok(()),
            written => written,
        }
    }
}

/// Returns the number of minions that run a job.
fn running(states: &States) -> i64 {
    let running = states.iter().filter(|(_, s)| *s == MinionJobState::Running);
    running.count() as i64
}

/// Writes the states of a job into its row.
pub(super) fn write_row(
    connection: &Connection,
    job: i64,
    states: &States,
) -> Result<(), StoreError> {
    update(connection, job, &states::encode(states), running(states))
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
