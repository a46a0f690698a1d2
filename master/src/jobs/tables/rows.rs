//! Reads jobs from their rows.

use rusqlite::Row;
use rusqlite::types::ValueRef;
use saline_data::Packed;
use saline_messages::{Batch, Jid, Job, PackedArguments, decode};
use saline_targeting::{Target, TargetKind};

use crate::disk::StoreError;
use crate::disk::columns::{blob, text, time};
use crate::jid::from_micros;

/// The columns of a job, in the order in which [`job`] reads them.
pub(crate) const JOB: &str = "jid, fun, arg, tgt, tgt_type, user, created, expires, claims";

/// The columns of a job with what the store knows beside it, in the order in which [`stored_job`] reads
/// them.
pub(crate) const STORED_JOB: &str =
    "jid, fun, arg, tgt, tgt_type, user, created, expires, claims, operator, batch";

/// A job as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredJob {
    /// The job.
    pub job: Job,
    /// The operator whose session published it, by the name of its key. [`Job::user`] is only what that
    /// operator's program said.
    pub operator: String,
    /// How the job is carried out in batches, if it is.
    pub batch: Option<Batch>,
}

/// Reads a job from a row of [`STORED_JOB`].
pub(crate) fn stored_job(row: &Row<'_>) -> Result<StoredJob, StoreError> {
    Ok(StoredJob {
        job: job(row)?,
        operator: text(row, 9)?.to_owned(),
        batch: batch(row, 10)?,
    })
}

/// Reads how a job is carried out in batches, if it is.
pub(crate) fn batch(row: &Row<'_>, column: usize) -> Result<Option<Batch>, StoreError> {
    let ValueRef::Blob(bytes) = row.get_ref(column)? else {
        return Ok(None);
    };
    let batch = decode(bytes);
    batch
        .map(Some)
        .map_err(|_| StoreError::corrupt("how a job is carried out in batches", "other bytes"))
}

/// Reads a job from a row that begins with [`JOB`].
pub(crate) fn job(row: &Row<'_>) -> Result<Job, StoreError> {
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
        claims: decode(blob(row, 8)?)
            .map_err(|_| StoreError::corrupt("the claims of a job", "other bytes"))?,
    })
}

/// Returns about the size of a job in bytes, to bound how much is read at once.
pub(crate) fn job_size(job: &Job) -> usize {
    128 + job.fun.len()
        + job.arg.as_packed().as_bytes().len()
        + job.target.expression.len()
        + job.user.len()
}

fn jid(row: &Row<'_>, column: usize) -> Result<Jid, StoreError> {
    Ok(from_micros(row.get(column)?))
}
