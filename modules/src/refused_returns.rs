//! The returns that a master refused, as functions see them.

use std::fmt;
use std::io;

use saline_messages::{Jid, Return};

/// The returns that a master refused, which the minion keeps for the operator.
pub trait RefusedReturns: fmt::Debug + Send + Sync {
    /// Returns the jobs whose returns a master refused, the oldest first.
    fn jobs(&self) -> Vec<Jid>;

    /// Returns the return of a job; none if there is none.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn read(&self, jid: &Jid) -> io::Result<Option<Return>>;

    /// Forgets a refused return. Returns false when there is none.
    ///
    /// # Errors
    /// When the disk does not take it; the return is kept.
    fn forget(&self, jid: &Jid) -> io::Result<bool>;
}
