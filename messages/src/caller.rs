//! The requests of callers: `saline-call`, which runs functions beside the running minion.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::envelope::after_ms;

use super::{Jid, MinionEvents, PackedArguments, RefusedVerb, RequestId};
use saline_data::Packed;

/// A request of a caller. Its session has the key of the minion on whose machine it runs, and takes no
/// other session's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallerRequest {
    /// Stores what a function returned. The master makes a job for it, which no minion is asked to run.
    Return(CallerReturn),
    /// Fires events on the master's bus, below the minion's tag.
    FireEvents(MinionEvents),
}

/// The return of a function that ran without a job; Salt's `_return` with the jid `req`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerReturn {
    /// Identifies the request, so that it is stored once if it is repeated.
    pub request_id: RequestId,
    /// The function, `module.function`.
    pub fun: String,
    /// The arguments of the function.
    pub arg: PackedArguments,
    /// The user who called; for the record, no authority.
    pub user: String,
    /// 0 for success; otherwise the exit code of a command.
    pub retcode: i64,
    /// Whether the function succeeded.
    pub success: bool,
    /// The value that the function returned.
    pub payload: Packed,
}

/// The reply to a caller's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallerReply {
    /// The reply to `Return`, sent after the commit: the job under which it is stored.
    Stored(Jid),
    /// The request was carried out and has no other reply.
    Done,
    /// The request was not carried out; repeat it later.
    Busy {
        /// The delay in milliseconds.
        after_ms: u32,
    },
    /// The request was not carried out and must not be repeated.
    Refused(RefusedVerb),
    /// The master's store or disk failed, for this reason.
    Failed(String),
}

impl CallerReply {
    /// Returns the reply to a request that is to be repeated after `delay`.
    pub fn busy(delay: Duration) -> Self {
        Self::Busy {
            after_ms: after_ms(delay),
        }
    }
}
