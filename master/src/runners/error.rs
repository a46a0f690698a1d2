//! Why a run has no return, in one line for the operator.

use saline_functions::Failure;
use saline_messages::Jid;

use super::task::MAX_RETURN;
use crate::jobs::StoreError;
use crate::orders::{OrderError, ResolveError};

impl From<ResolveError> for Failure {
    /// Converts the error of a target that names what does not exist, or of keys that cannot be read.
    fn from(error: ResolveError) -> Self {
        Self::Execution(error.to_string())
    }
}

impl From<OrderError> for Failure {
    fn from(error: OrderError) -> Self {
        Self::Execution(error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Execution(error.to_string())
    }
}

/// Returns the failure of a function whose job does not exist.
pub(super) fn no_such_job(jid: &Jid) -> Failure {
    Failure::Execution(format!(
        "job {jid} is unknown: it was never published by this master, is older than keep_jobs_seconds, was removed when the \
         store reached job_store_size, or is a run that somebody waited for, whose return is not stored"
    ))
}

/// Returns the failure of a function whose job is not carried out in batches.
pub(super) fn no_batch(jid: &Jid) -> Failure {
    Failure::Execution(format!(
        "job {jid} is not a batch: it was offered to all of its minions at once"
    ))
}

/// Returns the failure of a function whose job is a run.
pub(super) fn is_runner(jid: &Jid) -> Failure {
    Failure::Execution(format!(
        "{jid} is a runner, and no job of minions: saline-run jobs.kill {jid} ends it"
    ))
}

/// Returns the failure of a function whose run is not under way.
pub(super) fn no_such_run(jid: &Jid) -> Failure {
    Failure::Execution(format!(
        "no runner with the jid {jid} is under way: saline-run jobs.master shows those that are"
    ))
}

/// Returns the failure of a function whose return would be too large.
pub(super) fn too_large(what: impl std::fmt::Display, instead: &str) -> Failure {
    Failure::Execution(format!(
        "{what} is larger than the return of a runner may be ({MAX_RETURN} bytes): {instead}"
    ))
}
