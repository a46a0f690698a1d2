//! Why an order is not carried out.

use saline_messages::Jid;

use super::ResolveError;
use crate::jobs::StoreError;

/// The reason why an order was not carried out. Each is shown in one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// The order cannot be carried out as it is.
    #[error("{0}")]
    Invalid(String),
    /// The minions of the order's target cannot be found.
    #[error(transparent)]
    Unresolved(#[from] ResolveError),
    /// The principal may not give the order, or it cannot be noted in the audit file.
    #[error("{0}")]
    NotAllowed(String),
    /// The job that the order is about is not in the store.
    #[error("there is no job {0}")]
    NoSuchJob(Jid),
    /// The system has no randomness.
    #[error(transparent)]
    Randomness(#[from] saline_messages::random::NoRandomness),
    /// The job store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
