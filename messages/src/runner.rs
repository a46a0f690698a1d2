//! Runners and wheels: functions of the master, which it carries out as tasks.

use serde::{Deserialize, Serialize};

use super::{Jid, OrderWarning, PackedArguments, Part, RequestId, RunKind};
use saline_data::unpack_within;
use saline_data::{MAX_DEPTH, Packed, UnpackError, Value};

/// How deeply the return of a runner may nest: around what minions returned stand the names of their jobs.
const RETURN_DEPTH: usize = MAX_DEPTH + 8;

/// How many values the return of a runner may hold: one job may have a hundred thousand minions.
const RETURN_VALUES: usize = 16_000_000;

/// A request about a run of a function of the master. All requests about one run carry the same request id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunnerRequest {
    /// Begins the run, or waits for its end if it was begun before.
    Run(RunnerCall),
    /// Asks for a part of the end of the run.
    Part {
        /// The request that began the run.
        request_id: RequestId,
        /// The number of bytes that the operator has.
        offset: u64,
    },
    /// Ends the run before it is done.
    Kill {
        /// The request that began the run.
        request_id: RequestId,
    },
    /// Has the return of the run stored as that of an asynchronous one: the operator goes away.
    Keep {
        /// The request that began the run.
        request_id: RequestId,
    },
}

/// A call of a function of the master.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerCall {
    /// Identifies the run, so that it is begun once if the request is repeated.
    pub request_id: RequestId,
    /// The kind of the function.
    pub kind: RunKind,
    /// The function, `module.function`.
    pub fun: String,
    /// The arguments of the function.
    pub arg: PackedArguments,
    /// The user who asks; for the record, no authority.
    pub user: String,
    /// How long the run may take, in milliseconds; none for the function's own time.
    pub timeout_ms: Option<u64>,
    /// Whether nobody waits for the end: the job store keeps the return.
    pub is_async: bool,
}

/// The reply to a request about a runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunnerReply {
    /// The run was begun and has not ended. Unless it is asynchronous, repeat the request to wait for its end.
    Begun(Jid),
    /// The run has ended.
    Ended(EndedRun),
    /// The reply to `Part`: the bytes from the offset on, at least one.
    Part(Part),
    /// The reply to `Kill`, with what the operator is warned of: the run ends.
    Ending(Vec<OrderWarning>),
    /// The reply to `Keep`: the return of the run is stored.
    Kept(Jid),
    /// The reply to `Part`, `Kill` and `Keep`: there is no such run, or no longer.
    NoSuchRun,
    /// The run was not begun, for this reason.
    Refused(String),
}

/// The beginning of the encoded [`RunnerEnd`] of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRun {
    /// The jid of the run.
    pub jid: Jid,
    /// The first part of it; [`RunnerRequest::Part`] asks for the next one.
    pub part: Part,
}

/// How a run has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerEnd {
    /// Whether the run succeeded.
    pub success: bool,
    /// The reason why there is no return, in one line.
    pub error: Option<String>,
    /// Notes to the operator beside the return, a line each.
    pub notes: Vec<String>,
    /// The return; null if there is none.
    pub payload: Packed,
}

impl RunnerEnd {
    /// Unpacks the return, which may be larger than that of a minion.
    ///
    /// # Errors
    /// When the payload is no packed value.
    pub fn value(&self) -> Result<Value, UnpackError> {
        unpack_within(self.payload.as_bytes(), RETURN_DEPTH, RETURN_VALUES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_minion_may_return_can_be_read_inside_the_return_of_a_runner() {
        let deepest = Packed::from_bytes([vec![0x91; MAX_DEPTH - 1], vec![0xc0]].concat());
        deepest.unpack().unwrap();
        let inside = Packed::map([("Result", Packed::map([("m1", deepest)]))]);
        let job = Packed::map([("20261121091409931549", inside)]);
        assert!(job.unpack().is_err(), "it nests deeper than one return may");
        let end = RunnerEnd {
            success: true,
            error: None,
            notes: Vec::new(),
            payload: job,
        };
        let read = end.value().unwrap();
        assert!(
            read.get("20261121091409931549")
                .unwrap()
                .get("Result")
                .is_some()
        );
    }
}
