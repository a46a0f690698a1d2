//! Reads jobs and the states of their minions.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Connection;
use saline_messages::{Jid, MasterTime, MinionId, MinionJobState};

use super::memory::minion_record::MinionRecord;
use super::memory::open_jobs::MinionLookup;
use super::memory::states::{self, States};
use super::tables::minion_states::{self, WrittenStates};
use super::{JobStore, StoreError, jid, lock};
use crate::disk::columns;
use crate::jobs::tables::rows::{self, StoredJob};

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

/// What is told of a minion, and for one in the state `Unconfirmed` the last expiry that it acknowledged.
type Told = (MinionJobState, Option<MasterTime>);

/// Returns what the clock and the expiry ack of a minion tell at `now` of an offer.
fn tell(
    now: MasterTime,
    expires: MasterTime,
    state: MinionJobState,
    record: Option<&MinionRecord>,
) -> Told {
    let state = states::at(now, expires, state, record);
    let is_unconfirmed = state == MinionJobState::Unconfirmed;
    let since = record.map_or(0, |record| record.expiry_acked_until);
    (state, is_unconfirmed.then_some(since))
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

    /// Returns who ordered a job or a run; none if the store has neither.
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
            let mut statement = connection.prepare_cached(
                "SELECT operator FROM jobs WHERE jid = ?1 UNION ALL SELECT operator FROM runs WHERE jid = ?1",
            )?;
            let mut found = statement.query([job])?;
            Ok(found.next()?.map(|row| row.get(0)).transpose()?)
        })
        .await
    }

    /// Returns the state of a minion in a job, without what the clock and its expiry ack tell; none if the job was not
    /// published to it.
    pub(super) async fn state_of(
        &self,
        jid: &Jid,
        minion: &MinionId,
    ) -> Result<Option<MinionJobState>, StoreError> {
        let Some(job) = jid::to_micros(jid) else {
            return Ok(None);
        };
        // In this order: a minion leaves the memory when its state is on the disk.
        if let MinionLookup::State(state) = lock(&self.open).lookup(job, minion) {
            return Ok(Some(state));
        }
        let minion = minion.clone();
        self.read(job, move |connection| {
            let found = minion_states::find(connection, job, &minion)?;
            Ok(found.and_then(|(state, _)| state))
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
        // In this order: a minion leaves the memory when its state is on the disk.
        let here: HashMap<MinionId, Told> = self.records.look(|records| {
            let open = lock(&self.open);
            let expires = open.expires(job).unwrap_or(MasterTime::MAX);
            let here = open.states_here(job, after, most).into_iter();
            here.map(|(minion, state)| {
                let told = tell(now, expires, state, records.get(&minion));
                (minion, told)
            })
            .collect()
        });
        let (records, after) = (Arc::clone(&self.records), after.cloned());
        self.read(job, move |connection| {
            let written = minion_states::read(connection, job, after.as_ref(), most)?;
            let Some(WrittenStates {
                mut states,
                more,
                expires,
            }) = written
            else {
                return Ok(None);
            };
            let is_cancelled = is_cancelled(connection, job)?;
            let mut unconfirmed_since = Vec::new();
            records.look(|records| {
                for (minion, state) in &mut states {
                    let unoffered = [MinionJobState::Queued, MinionJobState::Waiting];
                    let (told, since) = match here.get(minion) {
                        // Its return may have come since it was looked for in the memory.
                        Some(told) if *state != MinionJobState::Returned => *told,
                        _ if is_cancelled && unoffered.contains(state) => {
                            (MinionJobState::Cancelled, None)
                        }
                        _ => tell(now, expires, *state, records.get(minion)),
                    };
                    *state = told;
                    unconfirmed_since.extend(since.map(|since| (minion.clone(), since)));
                }
            });
            Ok(Some(JobStates {
                states,
                more,
                expires,
                unconfirmed_since,
            }))
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
    row.map(|row| columns::time(row, 0)).transpose()
}

/// Returns the last expiry of a job in a partition that lies at `now` or before; 0 if there is none.
pub(super) fn last_expiry(
    connection: &Connection,
    now: MasterTime,
) -> Result<MasterTime, StoreError> {
    let last = connection.query_row(
        "SELECT max(expires) FROM jobs WHERE expires <= ?1",
        [columns::from_time(now)],
        |row| row.get::<_, Option<i64>>(0),
    )?;
    Ok(MasterTime::try_from(last.unwrap_or(0)).unwrap_or(0))
}

/// Returns the newest job or run of a partition.
pub(super) fn last_job(connection: &Connection) -> Result<Option<i64>, StoreError> {
    let newest = |table| {
        let newest = format!("SELECT max(jid) FROM {table}");
        connection.query_row(&newest, [], |row| row.get::<_, Option<i64>>(0))
    };
    Ok(newest("jobs")?.max(newest("runs")?))
}
