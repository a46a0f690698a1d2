//! Reads jobs and the states of their minions.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Connection;
use saline_messages::{Jid, MasterTime, MinionId, MinionJobState};

use super::disk::rows::{self, StoredJob};
use super::memory::states::{self, States};
use super::minion_records::MinionRecord;
use super::publish::written_states;
use super::{JobStore, StoreError, jid, lock, returns};

/// A page of the states of a job's minions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStates {
    /// The states, by id. The store has a return of each minion in the state `Returned`.
    pub states: States,
    /// Whether more minions follow the last of these.
    pub more: bool,
    /// The time until which minions may begin.
    pub expires: MasterTime,
    /// For those in the state `Unconfirmed`: the last expiry that each acknowledged.
    pub unconfirmed_since: Vec<(MinionId, MasterTime)>,
}

impl JobStates {
    /// Sets what the clock and the expiry acks of minions tell at `now`.
    fn apply(&mut self, now: MasterTime, records: &HashMap<MinionId, MinionRecord>) {
        for (minion, state) in &mut self.states {
            let record = records.get(minion);
            *state = states::at(now, self.expires, *state, record);
            if *state == MinionJobState::Unconfirmed {
                let since = record.map_or(0, |record| record.expiry_acked_until);
                self.unconfirmed_since.push((minion.clone(), since));
            }
        }
    }
}

impl JobStore {
    /// Returns a job; none if there is no such job.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn job(&self, jid: &Jid) -> Result<Option<StoredJob>, StoreError> {
        let Some(job) = jid::to_micros(jid) else {
            return Ok(None);
        };
        self.read(job, move |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {} FROM jobs WHERE jid = ?1",
                rows::STORED_JOB
            ))?;
            let mut found = statement.query([job])?;
            found.next()?.map(rows::stored_job).transpose()
        })
        .await
    }

    /// Returns who ordered a job; none if there is no such job.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn owner(&self, jid: &Jid) -> Result<Option<String>, StoreError> {
        let Some(job) = jid::to_micros(jid) else {
            return Ok(None);
        };
        self.read(job, move |connection| {
            let mut statement =
                connection.prepare_cached("SELECT operator FROM jobs WHERE jid = ?1")?;
            let mut found = statement.query([job])?;
            Ok(found.next()?.map(|row| row.get(0)).transpose()?)
        })
        .await
    }

    /// Returns the states of a job's minions after `after`, at most `most`; none if there is no such
    /// job.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn states(
        &self,
        jid: &Jid,
        after: Option<&MinionId>,
        most: usize,
    ) -> Result<Option<JobStates>, StoreError> {
        let Some(job) = jid::to_micros(jid) else {
            return Ok(None);
        };
        let now = self.now();
        // In this order: a job leaves the memory when its states are on the disk.
        let held = self.records.look(|records| {
            let open = lock(&self.open);
            let (states, expires) = open.states(job)?;
            let mut page = page(states, after, most, expires);
            page.apply(now, records);
            Some(page)
        });
        if let Some(page) = held {
            return Ok(Some(page));
        }
        let (records, after) = (Arc::clone(&self.records), after.cloned());
        self.read(job, move |connection| {
            let Some((packed, expires)) = written_states(connection, job)? else {
                return Ok(None);
            };
            let mut states = states::decode(&packed)?;
            if is_cancelled(connection, job)? {
                for (_, state) in &mut states {
                    if matches!(state, MinionJobState::Queued | MinionJobState::Waiting) {
                        *state = MinionJobState::Cancelled;
                    }
                }
            }
            returns::note_returned(connection, job, after.as_ref(), &mut states)?;
            let mut page = page(&states, after.as_ref(), most, expires);
            records.look(|records| page.apply(now, records));
            Ok(Some(page))
        })
        .await
    }
}

/// The condition of SQL that a job was cancelled before it expired.
pub(super) const IS_CANCELLED: &str = "cancelled > 0 AND cancelled < expires";

/// Whether the job was cancelled before it expired.
pub(super) fn is_cancelled(connection: &Connection, job: i64) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT 1 FROM jobs WHERE jid = ?1 AND {IS_CANCELLED}"
    ))?;
    Ok(statement.exists([job])?)
}

/// Returns when the job was cancelled, if it was.
pub(super) fn cancelled_at(
    connection: &Connection,
    job: i64,
) -> Result<Option<MasterTime>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT cancelled FROM jobs WHERE jid = ?1 AND cancelled > 0")?;
    let mut found = statement.query([job])?;
    let row = found.next()?;
    row.map(|row| rows::time(row, 0)).transpose()
}

fn page(states: &States, after: Option<&MinionId>, most: usize, expires: MasterTime) -> JobStates {
    let from = states.partition_point(|(id, _)| after.is_some_and(|after| id <= after));
    let rest = &states[from..];
    JobStates {
        states: rest[..rest.len().min(most)].to_vec(),
        more: rest.len() > most,
        expires,
        unconfirmed_since: Vec::new(),
    }
}

/// Returns the newest job or run of a partition.
pub(super) fn last_job(connection: &Connection) -> Result<Option<i64>, StoreError> {
    let newest = |table| {
        let newest = format!("SELECT max(jid) FROM {table}");
        connection.query_row(&newest, [], |row| row.get::<_, Option<i64>>(0))
    };
    Ok(newest("jobs")?.max(newest("runs")?))
}
