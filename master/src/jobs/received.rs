//! What the store has received, of all jobs: each publication and each return, in the order of the receipt numbers.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use saline_data::Packed;
use saline_messages::{Jid, MinionId, MinionJobState};

use super::{JobStore, StoreError, jid};
use crate::disk::columns;
use crate::jobs::tables::return_parts::StoredPayload;
use crate::jobs::tables::rows::StoredJob;
use crate::jobs::tables::{minion_states, rows};

/// The bytes of an entry in memory beside its payload, about.
const OVERHEAD: usize = 256;

/// A publication or a return.
#[derive(Debug)]
pub(crate) struct Received {
    /// The receipt number.
    pub(crate) receipt: i64,
    /// The names of the destinations that the order of the job named.
    pub(crate) returners: Vec<String>,
    /// What was received.
    pub(crate) what: ReceivedKind,
}

/// The two kinds of what is received.
#[derive(Debug)]
pub(crate) enum ReceivedKind {
    /// A job, with the states of its minions as they are written now.
    Job(Box<StoredJob>, Vec<(MinionId, MinionJobState)>),
    /// A return.
    Return {
        jid: Jid,
        minion: MinionId,
        retcode: i64,
        success: bool,
        /// None when it is larger than the reader wants.
        payload: Option<Packed>,
    },
}

/// What a reader wants.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedQuery<W> {
    /// Only what has a higher receipt number.
    pub(crate) after: i64,
    /// About the largest number of bytes, but at least one entry if there is one.
    pub(crate) max_bytes: usize,
    /// The largest payload of a return.
    pub(crate) max_payload: usize,
    /// Whether the publication of a job, or the return of a minion, is wanted; the last are the destinations that the order of
    /// the job named.
    pub(crate) wants: W,
}

/// A part of what was received.
#[derive(Debug)]
pub(crate) struct ReceivedPage {
    /// In the order of the receipt numbers.
    pub(crate) entries: Vec<Received>,
    /// Everything up to this number that is wanted is here.
    pub(crate) until: i64,
    /// Whether there may be more.
    pub(crate) more: bool,
}

impl JobStore {
    /// Returns a receipt number that no later one is below.
    pub(crate) fn highest_receipt(&self) -> i64 {
        self.receipts.highest()
    }

    /// Returns the last receipt number that was given in this run of the master, or found at its start.
    pub(crate) fn last_receipt(&self) -> i64 {
        self.receipts.last()
    }

    /// Returns what was received after a receipt number.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub(crate) async fn received<W>(
        &self,
        query: ReceivedQuery<W>,
    ) -> Result<ReceivedPage, StoreError>
    where
        W: Fn(&Jid, Option<&MinionId>, &[String]) -> bool + Clone + Send + 'static,
    {
        // First the highest number of each file. Numbers are given and committed in their order, by one thread: when one
        // is seen, all below it can be read, whichever file they are in.
        let (mut starts, mut newest) = (Vec::new(), query.after);
        for start in self.partitions.all() {
            match self.reader.moment(start, last_receipt).await {
                Ok(last) if last > query.after => {
                    starts.push(start);
                    newest = newest.max(last);
                }
                // It was pruned meanwhile.
                Ok(_) | Err(StoreError::Removed) => {}
                Err(error) => return Err(error),
            }
        }
        let (mut entries, mut until) = (Vec::new(), newest);
        for start in starts {
            let query = query.clone();
            let read = move |connection: &Connection| read(connection, &query, newest);
            match self.reader.moment(start, read).await {
                Ok((read, end)) => {
                    entries.extend(read);
                    until = until.min(end);
                }
                Err(StoreError::Removed) => {}
                Err(error) => return Err(error),
            }
        }
        entries.retain(|entry: &Received| entry.receipt <= until);
        entries.sort_by_key(|entry| entry.receipt);
        Ok(ReceivedPage {
            entries,
            until,
            more: until < newest,
        })
    }
}

/// What was received after a number and until another one.
const RECEIVED: &str = "
    SELECT receipt, jid, NULL AS minion, names FROM jobs LEFT JOIN job_returners USING (jid)
    WHERE receipt > ?1 AND receipt <= ?2
    UNION ALL
    SELECT receipt, jid, minion, names FROM returns LEFT JOIN job_returners USING (jid)
    WHERE receipt > ?1 AND receipt <= ?2
    ORDER BY receipt";

/// What a row of [`RECEIVED`] is about.
struct Key {
    receipt: i64,
    job: i64,
    jid: Jid,
    minion: Option<MinionId>,
    returners: Vec<String>,
}

impl Key {
    fn of(row: &Row<'_>) -> Result<Self, StoreError> {
        let job: i64 = row.get(1)?;
        let names = match row.get_ref(3)? {
            ValueRef::Null => "",
            _ => columns::text(row, 3)?,
        };
        Ok(Self {
            receipt: row.get(0)?,
            job,
            jid: jid::from_micros(job),
            minion: match row.get_ref(2)? {
                ValueRef::Null => None,
                _ => Some(columns::minion(row, 2)?),
            },
            returners: names.split_whitespace().map(str::to_owned).collect(),
        })
    }
}

/// Returns how many of the publications and returns in a partition after a receipt number are wanted.
pub(super) fn count_after<W>(
    connection: &Connection,
    after: i64,
    wants: W,
) -> Result<u64, StoreError>
where
    W: Fn(&Jid, Option<&MinionId>, &[String]) -> bool,
{
    let mut statement = connection.prepare_cached(RECEIVED)?;
    let mut found = statement.query(params![after, i64::MAX])?;
    let mut count = 0;
    while let Some(row) = found.next()? {
        let key = Key::of(row)?;
        count += u64::from(wants(&key.jid, key.minion.as_ref(), &key.returners));
    }
    Ok(count)
}

/// Returns the highest receipt number in a partition, or 0.
pub(super) fn last_receipt(connection: &Connection) -> Result<i64, StoreError> {
    let sql = "SELECT max((SELECT coalesce(max(receipt), 0) FROM returns),
                          (SELECT coalesce(max(receipt), 0) FROM jobs))";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// Reads what is wanted of a partition up to number `newest`. Returns the number up to which it is all.
fn read<W>(
    connection: &Connection,
    query: &ReceivedQuery<W>,
    newest: i64,
) -> Result<(Vec<Received>, i64), StoreError>
where
    W: Fn(&Jid, Option<&MinionId>, &[String]) -> bool,
{
    let mut statement = connection.prepare_cached(RECEIVED)?;
    let mut found = statement.query(params![query.after, newest])?;
    let (mut entries, mut room) = (Vec::new(), query.max_bytes);
    while let Some(row) = found.next()? {
        let Key {
            receipt,
            job,
            jid,
            minion,
            returners,
        } = Key::of(row)?;
        if !(query.wants)(&jid, minion.as_ref(), &returners) {
            continue;
        }
        let (what, bytes) = match minion {
            None => read_job(connection, job)?,
            Some(minion) => read_return(connection, receipt, (jid, minion), query.max_payload)?,
        };
        let bytes = bytes + OVERHEAD;
        if bytes > room && !entries.is_empty() {
            return Ok((entries, receipt - 1));
        }
        room = room.saturating_sub(bytes);
        entries.push(Received {
            receipt,
            returners,
            what,
        });
    }
    Ok((entries, newest))
}

fn read_job(connection: &Connection, job: i64) -> Result<(ReceivedKind, usize), StoreError> {
    let sql = format!(
        "SELECT {}, states FROM jobs WHERE jid = ?1",
        rows::STORED_JOB
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = statement.query([job])?;
    let row = found.next()?.ok_or(StoreError::Removed)?;
    let stored = rows::stored_job(row)?;
    let packed = columns::blob(row, 11)?;
    let bytes = rows::job_size(&stored.job) + packed.len();
    let minions = minion_states::read_all(connection, job, packed)?;
    Ok((ReceivedKind::Job(Box::new(stored), minions), bytes))
}

fn read_return(
    connection: &Connection,
    receipt: i64,
    (jid, minion): (Jid, MinionId),
    max_payload: usize,
) -> Result<(ReceivedKind, usize), StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT retcode, success, parts, length(payload), payload FROM returns WHERE receipt = ?1",
    )?;
    let mut found = statement.query([receipt])?;
    let row = found.next()?.ok_or(StoreError::Removed)?;
    let payload = StoredPayload::of(connection, row, 2)?.read_up_to(connection, max_payload)?;
    let bytes = payload.as_ref().map_or(0, Vec::len);
    let received = ReceivedKind::Return {
        jid,
        minion,
        retcode: row.get(0)?,
        success: row.get(1)?,
        payload: payload.map(Packed::from_bytes),
    };
    Ok((received, bytes))
}
