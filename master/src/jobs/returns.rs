//! Stores returns, each once, and reads them in the order of their receipt.

use std::sync::Arc;

use rusqlite::{Connection, params};
use saline_data::Packed;
use saline_messages::{
    Jid, MasterTime, MinionId, MinionJobState, RETCODE_INTERRUPTED, Return, ReturnVerdict,
    ReturnsPage, StoredReturn,
};

use super::memory::open_jobs::MinionLookup;
use super::memory::receipts::ReceiptSource;
use super::{JobStore, StoreError, jid, lock};
use crate::disk::writer::StoreFile;
use crate::disk::{columns, file};
use crate::jobs::tables::minion_states;
use crate::jobs::tables::return_parts::{self, StoredPayload};

/// The bytes of a return in memory beside its payload, about.
const OVERHEAD: usize = 256;

/// The returns of one partition in one command, with their jobs.
type Batch = Vec<(i64, Return)>;

/// The values of a return's row.
pub(super) struct ReturnRow<'r> {
    pub(super) retcode: i64,
    pub(super) success: bool,
    /// Empty if it came in parts.
    pub(super) payload: &'r [u8],
    /// The number of the first part of the payload, if it came in parts.
    pub(super) parts: Option<i64>,
}

impl JobStore {
    /// Stores returns of a minion. The verdicts, in their order, come after the commit, also for
    /// duplicates.
    ///
    /// # Errors
    /// When SQLite fails. The minion should send the returns again: some may be stored.
    ///
    /// # Cancel safety
    /// A dropped call may have stored some of the returns. It may be repeated.
    pub async fn store_returns(
        &self,
        minion: &MinionId,
        returns: Vec<Return>,
    ) -> Result<Vec<ReturnVerdict>, StoreError> {
        let mut verdicts = vec![ReturnVerdict::UnknownJob; returns.len()];
        // The places of the returns of one partition. Almost always there is one partition: the jobs of
        // one minion are of about the same time.
        let mut places = Vec::with_capacity(returns.len());
        let mut batch = Batch::with_capacity(returns.len());
        let mut partition = None;
        for (place, returned) in returns.into_iter().enumerate() {
            let Some(job) = jid::to_micros(&returned.jid) else {
                continue;
            };
            if returned.retcode == RETCODE_INTERRUPTED && self.is_disputed(minion, &returned.jid) {
                verdicts[place] = ReturnVerdict::Disputed;
                continue;
            }
            let start = self.partitions.holding(job);
            if start != partition
                && let Some(partition) = partition
            {
                let before = std::mem::take(&mut batch);
                self.store_batch(partition, minion, before, &mut places, &mut verdicts)
                    .await?;
            }
            partition = start;
            if start.is_some() {
                places.push(place);
                batch.push((job, returned));
            }
        }
        if let Some(partition) = partition {
            self.store_batch(partition, minion, batch, &mut places, &mut verdicts)
                .await?;
        }
        Ok(verdicts)
    }

    /// Whether another copy of the minion may run a job that this copy does not know, or reports as interrupted.
    pub fn is_disputed(&self, minion: &MinionId, jid: &Jid) -> bool {
        let created = jid::to_micros(jid).and_then(|job| u64::try_from(job / 1_000).ok());
        let created = created.unwrap_or(0);
        let record = self.minion_record(minion);
        record.is_some_and(|record| !record.is_authoritative_for(created, self.duplicates_before()))
    }

    /// Stores the returns of one partition, and notes their verdicts at their places.
    async fn store_batch(
        &self,
        start: i64,
        minion: &MinionId,
        batch: Batch,
        places: &mut Vec<usize>,
        verdicts: &mut [ReturnVerdict],
    ) -> Result<(), StoreError> {
        match self.commit_batch(start, minion.clone(), batch).await {
            // It was pruned meanwhile: its jobs are unknown.
            Err(StoreError::Removed) => places.clear(),
            stored => {
                for (place, verdict) in places.drain(..).zip(stored?) {
                    verdicts[place] = verdict;
                }
            }
        }
        Ok(())
    }

    fn commit_batch(
        &self,
        start: i64,
        minion: MinionId,
        batch: Batch,
    ) -> impl Future<Output = Result<Vec<ReturnVerdict>, StoreError>> + Send + '_ {
        let now = self.now();
        let size = |(_, returned): &(_, Return)| returned.payload.as_bytes().len() + OVERHEAD;
        let bytes = batch.iter().map(size).sum();
        let (open, after) = (Arc::clone(&self.open), Arc::clone(&self.open));
        let (receipts, id) = (Arc::clone(&self.receipts), minion.clone());
        let counts = Arc::clone(&self.counts);
        // What is noted of them when the transaction has ended.
        let failed =
            |(job, returned): &(i64, Return)| (*job, returned.retcode != 0 || !returned.success);
        let ending: Vec<_> = batch.iter().map(failed).collect();
        let act = move |connection: &Connection| {
            let lookups: Vec<MinionLookup> = {
                let open = lock(&open);
                let lookup = |(job, _): &(i64, Return)| open.lookup(*job, &minion);
                batch.iter().map(lookup).collect()
            };
            let all = batch.iter().zip(lookups);
            all.map(|((job, returned), lookup)| {
                if let Some(verdict) = refusal(connection, *job, &minion, lookup)? {
                    return Ok(verdict);
                }
                let row = ReturnRow {
                    retcode: returned.retcode,
                    success: returned.success,
                    payload: returned.payload.as_bytes(),
                    parts: None,
                };
                insert(connection, *job, &minion, &row, &receipts)
            })
            .collect()
        };
        let settled = move |result: &Result<Vec<ReturnVerdict>, StoreError>| {
            if let Ok(verdicts) = result {
                let mut open = lock(&after);
                for ((job, failed), verdict) in ending.into_iter().zip(verdicts) {
                    counts.return_judged(*verdict, failed);
                    if matches!(verdict, ReturnVerdict::Stored | ReturnVerdict::Duplicate) {
                        open.returned(job, &id, failed, now);
                    }
                }
            }
        };
        self.writer
            .call(StoreFile::Partition(start), bytes, act, settled)
    }

    /// Returns the returns of a job that were received after number `after`: about `max_bytes`, but at
    /// least one if there is one. None if there is no such job.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn returns(
        &self,
        jid: &Jid,
        after: u64,
        max_bytes: usize,
    ) -> Result<Option<ReturnsPage>, StoreError> {
        let Some(job) = jid::to_micros(jid) else {
            return Ok(None);
        };
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        self.read(job, move |connection| {
            if !minion_states::has_job(connection, job)? {
                return Ok(None);
            }
            let page = page(connection, job, after, max_bytes)?;
            let sizes = page
                .returns
                .iter()
                .map(|found| found.payload.as_bytes().len());
            if sizes.sum::<usize>() >= file::LARGE {
                file::shrink_cache(connection);
            }
            Ok(Some(page))
        })
        .await
    }

    /// Returns the payload of a minion's return; none if there is no such return, or its payload is larger than
    /// `max_payload` bytes.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub(crate) async fn payload_of(
        &self,
        jid: &Jid,
        minion: &MinionId,
        max_payload: usize,
    ) -> Result<Option<Packed>, StoreError> {
        let Some(job) = jid::to_micros(jid) else {
            return Ok(None);
        };
        let minion = minion.clone();
        self.read(job, move |connection| {
            let payload = read_payload(connection, job, &minion, max_payload)?;
            if payload.as_ref().map_or(0, Vec::len) >= file::LARGE {
                file::shrink_cache(connection);
            }
            Ok(payload.map(Packed::from_bytes))
        })
        .await
    }
}

/// Returns why a return is not stored; none when it is.
pub(super) fn refusal(
    connection: &Connection,
    job: i64,
    minion: &MinionId,
    lookup: MinionLookup,
) -> Result<Option<ReturnVerdict>, StoreError> {
    let state = match lookup {
        MinionLookup::State(state) => Some(state),
        MinionLookup::NotHere => match minion_states::find(connection, job, minion)? {
            Some((state, _)) => state,
            None => return Ok(Some(ReturnVerdict::UnknownJob)),
        },
    };
    let refused = match state {
        None
        | Some(
            MinionJobState::NotConnected | MinionJobState::Declined | MinionJobState::Withdrawn,
        ) => true,
        Some(_) => false,
    };
    Ok(refused.then_some(ReturnVerdict::NotOffered))
}

/// Stores a return, unless there is one already that it does not replace.
pub(super) fn insert(
    connection: &Connection,
    job: i64,
    minion: &MinionId,
    row: &ReturnRow<'_>,
    receipts: &ReceiptSource,
) -> Result<ReturnVerdict, StoreError> {
    if try_insert(connection, job, minion, row, receipts)? {
        return Ok(ReturnVerdict::Stored);
    }
    if is_duplicate(connection, job, minion, row.retcode)? {
        return Ok(ReturnVerdict::Duplicate);
    }
    let parts: Option<i64> = connection
        .prepare_cached("DELETE FROM returns WHERE jid = ?1 AND minion = ?2 RETURNING parts")?
        .query_row(params![job, minion.as_str()], |row| row.get(0))?;
    if let Some(first) = parts {
        return_parts::remove(connection, first)?;
    }
    try_insert(connection, job, minion, row, receipts)?;
    Ok(ReturnVerdict::Stored)
}

/// Stores a return, unless there is one already. Returns whether it is stored.
fn try_insert(
    connection: &Connection,
    job: i64,
    minion: &MinionId,
    row: &ReturnRow<'_>,
    receipts: &ReceiptSource,
) -> Result<bool, StoreError> {
    let stored = connection
        .prepare_cached(
            "INSERT INTO returns (receipt, jid, minion, retcode, success, payload, parts)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (jid, minion) DO NOTHING",
        )?
        .execute(params![
            receipts.next(),
            job,
            minion.as_str(),
            row.retcode,
            row.success,
            row.payload,
            row.parts,
        ])?;
    Ok(stored > 0)
}

fn page(
    connection: &Connection,
    job: i64,
    after: i64,
    max_bytes: usize,
) -> Result<ReturnsPage, StoreError> {
    // The index holds the receipt numbers, in the order of the minions.
    let mut numbers: Vec<i64> = connection
        .prepare_cached("SELECT receipt FROM returns INDEXED BY returns_of WHERE jid = ?1")?
        .query_map([job], |row| row.get(0))?
        .filter(|number| !matches!(number, Ok(number) if *number <= after))
        .collect::<Result<_, _>>()?;
    numbers.sort_unstable();
    // The length is read before the payload, which is not read when it does not fit.
    let mut statement = connection.prepare_cached(
        "SELECT minion, retcode, success, parts, length(payload), payload FROM returns
         WHERE receipt = ?1",
    )?;
    let mut returns = Vec::new();
    let mut room = max_bytes;
    for number in numbers {
        let mut found = statement.query([number])?;
        let Some(row) = found.next()? else {
            continue;
        };
        let minion = columns::minion(row, 0)?;
        let payload = StoredPayload::of(connection, row, 3)?;
        let size = payload.length().saturating_add(minion.as_str().len() + 48);
        if size > room && !returns.is_empty() {
            return Ok(ReturnsPage {
                returns,
                more: true,
            });
        }
        room = room.saturating_sub(size);
        returns.push(StoredReturn {
            receipt: u64::try_from(number).unwrap_or(0),
            minion,
            retcode: row.get(1)?,
            success: row.get(2)?,
            payload: Packed::from_bytes(payload.read(connection)?),
        });
    }
    Ok(ReturnsPage {
        returns,
        more: false,
    })
}

/// Reads the payload of a minion's return; none if there is no such return, or its payload is larger than `max_payload` bytes.
fn read_payload(
    connection: &Connection,
    job: i64,
    minion: &MinionId,
    max_payload: usize,
) -> Result<Option<Vec<u8>>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT parts, length(payload), payload FROM returns WHERE jid = ?1 AND minion = ?2",
    )?;
    let mut found = statement.query(params![job, minion.as_str()])?;
    let Some(row) = found.next()? else {
        return Ok(None);
    };
    StoredPayload::of(connection, row, 0)?.read_up_to(connection, max_payload)
}

/// Whether a return is stored that one with this retcode does not replace. A copy of a minion that takes its original's run
/// for interrupted has said so before the original returns: what the original returns is the truth.
pub(super) fn is_duplicate(
    connection: &Connection,
    job: i64,
    minion: &MinionId,
    retcode: i64,
) -> Result<bool, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT retcode FROM returns WHERE jid = ?1 AND minion = ?2")?;
    let mut found = statement.query(params![job, minion.as_str()])?;
    Ok(match found.next()? {
        Some(row) => retcode == RETCODE_INTERRUPTED || row.get::<_, i64>(0)? != RETCODE_INTERRUPTED,
        None => false,
    })
}

/// Whether a return of a failure is stored.
pub(super) fn has_failed(connection: &Connection, job: i64) -> Result<bool, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT 1 FROM returns WHERE jid = ?1 AND (retcode <> 0 OR NOT success)")?;
    Ok(statement.exists([job])?)
}

/// What is stored of the end of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchFailures {
    /// The minions whose stored returns are those of failures, by minion.
    pub minions: Vec<MinionId>,
    /// Whether an operator cancelled the job before the first of them.
    pub were_late: bool,
}

/// Returns the minions whose stored returns are those of failures. Receipt numbers are times.
pub(super) fn failures(
    connection: &Connection,
    job: i64,
    cancelled: Option<MasterTime>,
) -> Result<BatchFailures, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT minion, receipt FROM returns WHERE jid = ?1 AND (retcode <> 0 OR NOT success) ORDER BY minion",
    )?;
    let mut found = statement.query([job])?;
    let (mut minions, mut first) = (Vec::new(), i64::MAX);
    while let Some(row) = found.next()? {
        minions.push(columns::minion(row, 0)?);
        first = first.min(row.get(1)?);
    }
    let cancelled = cancelled.map(|at| columns::from_time(at).saturating_mul(1_000));
    Ok(BatchFailures {
        minions,
        were_late: cancelled.is_some_and(|at| at < first),
    })
}
