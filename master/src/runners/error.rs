//! Why a run has no return.

use saline_messages::Jid;

use crate::jobs::StoreError;
use crate::orders::ResolveError;

/// Why a run has no return, in one line for the operator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunnerError {
    /// An argument cannot be used.
    #[error("{0}")]
    Arguments(String),
    /// There is no such job.
    #[error(
        "job {0} is unknown: it was never published by this master, is older than keep_jobs_seconds, or went when the store reached job_store_size"
    )]
    NoSuchJob(Jid),
    /// The job is not carried out in batches.
    #[error("job {0} is no batch: it was offered to all of its minions at once")]
    NoBatch(Jid),
    /// The jid is that of a runner.
    #[error("{0} is a runner, and no job of minions: saline-run jobs.kill {0} ends it")]
    IsRunner(Jid),
    /// No runner with this jid is under way.
    #[error("no runner with the jid {0} is under way: saline-run jobs.master shows those that are")]
    NoSuchRun(Jid),
    /// The return would be too large.
    #[error("{what} is larger than the return of a runner may be ({most} bytes): {instead}")]
    TooLarge {
        /// The thing that is too large.
        what: String,
        /// The largest size in bytes.
        most: usize,
        /// The advice what to do instead.
        instead: &'static str,
    },
    /// The target names what does not exist, or the keys cannot be read.
    #[error(transparent)]
    Target(#[from] ResolveError),
    /// The job store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The master was started again after the same request had begun this function, which is not repeated.
    #[error(
        "the master was started again after {0} had begun, and does not repeat it: look whether it was done before you run it again"
    )]
    Interrupted(String),
    /// Something else failed, for this reason.
    #[error("{0}")]
    Failed(String),
}
