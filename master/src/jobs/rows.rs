//! Converts rows to messages and back.

use rusqlite::types::ValueRef;
use rusqlite::{Row, Rows};
use saline_protocol::message::{
    Jid, Job, MasterTime, MinionId, OfferState, Packed, PackedArguments,
};
use saline_protocol::target::{Target, TargetKind};

use super::StoreError;

/// The columns of a job, in the order in which [`job`] reads them.
pub(super) const JOB: &str =
    "jobs.jid, jobs.fun, jobs.arg, jobs.tgt, jobs.tgt_type, jobs.user, jobs.created, jobs.expires";

/// Reads a job from a row that begins with [`JOB`].
pub(super) fn job(row: &Row<'_>) -> Result<Job, StoreError> {
    let kind = text(row, 4)?;
    Ok(Job {
        jid: jid(row, 0)?,
        fun: text(row, 1)?.to_owned(),
        arg: PackedArguments::from_packed(Packed::from_bytes(blob(row, 2)?.to_vec())),
        target: Target {
            kind: TargetKind::from_name(kind)
                .ok_or_else(|| StoreError::corrupt("a kind of target", kind))?,
            expression: text(row, 3)?.to_owned(),
        },
        user: text(row, 5)?.to_owned(),
        created: time(row, 6)?,
        expires: time(row, 7)?,
    })
}

/// Returns about the size of a job in bytes, to bound how much is read at once.
pub(super) fn job_size(job: &Job) -> usize {
    128 + job.fun.len()
        + job.arg.as_packed().as_bytes().len()
        + job.target.expression.len()
        + job.user.len()
}

pub(super) fn jid(row: &Row<'_>, column: usize) -> Result<Jid, StoreError> {
    let text = text(row, column)?;
    Jid::parse(text).map_err(|_| StoreError::corrupt("a jid", text))
}

pub(super) fn minion(row: &Row<'_>, column: usize) -> Result<MinionId, StoreError> {
    let text = text(row, column)?;
    MinionId::parse(text).map_err(|_| StoreError::corrupt("a minion's id", text))
}

pub(super) fn state(number: i64) -> Result<OfferState, StoreError> {
    OfferState::from_number(number)
        .ok_or_else(|| StoreError::corrupt("a state of an offer", number.to_string()))
}

pub(super) fn time(row: &Row<'_>, column: usize) -> Result<MasterTime, StoreError> {
    let time: i64 = row.get(column)?;
    // A time before 1970 is read as 1970: both are long past.
    Ok(MasterTime::try_from(time).unwrap_or(0))
}

/// Converts a time for a column; a time beyond the column's range becomes the largest one.
pub(super) fn from_time(time: MasterTime) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, StoreError> {
    match row.get_ref(column)? {
        ValueRef::Text(bytes) => std::str::from_utf8(bytes)
            .map_err(|_| StoreError::corrupt("text", String::from_utf8_lossy(bytes))),
        other => Err(StoreError::corrupt("text", other.data_type().to_string())),
    }
}

pub(super) fn blob<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8], StoreError> {
    match row.get_ref(column)? {
        ValueRef::Blob(bytes) => Ok(bytes),
        other => Err(StoreError::corrupt("bytes", other.data_type().to_string())),
    }
}

/// Reads jobs from rows that begin with [`JOB`]: about `max_bytes`, but at least one if there is
/// one.
pub(super) fn jobs(found: &mut Rows<'_>, max_bytes: usize) -> Result<Vec<Job>, StoreError> {
    let mut jobs = Vec::new();
    let mut room = max_bytes;
    while let Some(row) = found.next()? {
        let job = job(row)?;
        let size = job_size(&job);
        if size > room && !jobs.is_empty() {
            break;
        }
        room = room.saturating_sub(size);
        jobs.push(job);
    }
    Ok(jobs)
}
