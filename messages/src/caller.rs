//! The requests of callers: `saline-call`, which runs functions beside the running minion.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::envelope::after_ms;

use super::{
    Jid, MAX_RETURNERS, MineReply, MineRequest, MinionEvents, PackedArguments, Part, PillarReply,
    PillarRequest, RefusedVerb, RequestId,
};
use saline_data::Packed;

/// A request of a caller. Its session has the key of the minion on whose machine it runs, and takes no
/// other session's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallerRequest {
    /// Stores what a function returned. The master makes a job for it, which no minion is asked to run.
    Return(CallerReturn),
    /// Fires events on the master's bus, below the minion's tag.
    FireEvents(MinionEvents),
    /// Asks for the pillar of the minion.
    Pillar(PillarRequest),
    /// Leaves values of the minion in the mine, or asks for those of minions.
    Mine(MineRequest),
    /// Asks whether the configuration of the master has these destinations, at most [`MAX_RETURNERS`]: `Done`, or `Failed` with
    /// the one that it does not have.
    CheckReturners(Vec<String>),
}

/// The longest name of a user or of a function that is stored with a call, in bytes.
pub const MAX_CALL_NAME: usize = 256;

/// The most that the arguments of a call may come to, packed, in bytes.
pub const MAX_CALL_ARGUMENTS: usize = 64 * 1024;

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
    /// The destinations outside of the master that get the call too: at most [`MAX_RETURNERS`].
    pub returners: Vec<String>,
}

impl CallerReturn {
    /// Whether the master stores this call: the function has a name of letters, digits, `_`, `-` and `.`, neither that name
    /// nor the user's is above [`MAX_CALL_NAME`], the arguments are not above [`MAX_CALL_ARGUMENTS`], and there are not more than
    /// [`MAX_RETURNERS`] destinations. The payload has no bound here; it is that of every return.
    pub fn is_within_bounds(&self) -> bool {
        is_function_name(&self.fun)
            && self.returners.len() <= MAX_RETURNERS
            && self.user.len() <= MAX_CALL_NAME
            && self.arg.as_packed().as_bytes().len() <= MAX_CALL_ARGUMENTS
    }
}

/// The longest name of a job of a schedule, in bytes.
pub const MAX_SCHEDULE_NAME: usize = 256;

/// A run of a job of a minion's own schedule, as the master stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledRun {
    /// Identifies the run, so that its return is stored once.
    pub request_id: RequestId,
    /// The name of the job in the schedule.
    pub schedule: String,
    /// The function, `module.function`.
    pub fun: String,
    /// The arguments of the function.
    pub arg: PackedArguments,
    /// A mapping that the schedule gives with the job.
    pub metadata: Option<Packed>,
}

impl ScheduledRun {
    /// Whether the master stores this run: the function has a name of letters, digits, `_`, `-` and `.`, of at most
    /// [`MAX_CALL_NAME`] bytes, the name of the job is not above [`MAX_SCHEDULE_NAME`], and neither the arguments nor the
    /// metadata are above [`MAX_CALL_ARGUMENTS`].
    pub fn is_within_bounds(&self) -> bool {
        let metadata = self.metadata.as_ref();
        is_function_name(&self.fun)
            && self.arg.as_packed().as_bytes().len() <= MAX_CALL_ARGUMENTS
            && self.schedule.len() <= MAX_SCHEDULE_NAME
            && metadata.is_none_or(|metadata| metadata.as_bytes().len() <= MAX_CALL_ARGUMENTS)
    }
}

/// The beginning of the user of a scheduled job, before the name of the job.
const SCHEDULED_USER: &str = "schedule ";

/// Returns the user under whose name a scheduled job is stored and listed.
pub fn user_of_schedule(name: &str) -> String {
    format!("{SCHEDULED_USER}{name}")
}

/// Returns the name of the scheduled job that is stored under this user; none if it is none.
pub fn schedule_of_user(user: &str) -> Option<&str> {
    user.strip_prefix(SCHEDULED_USER)
}

/// The return of a scheduled run, or a part of it: the payload comes whole in the first part, or in several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledReturn {
    /// The run that the return is of.
    pub run: ScheduledRun,
    /// As in a return. Those of the last part count.
    pub retcode: i64,
    /// As in a return.
    pub success: bool,
    /// The part of the payload.
    pub part: Part,
}

/// Whether this may be the name of a function in a call.
pub fn is_function_name(text: &str) -> bool {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (1..=MAX_CALL_NAME).contains(&text.len()) && text.chars().all(is_of_a_name)
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
    /// The reply to `Pillar`.
    Pillar(PillarReply),
    /// The reply to `Mine`.
    Mine(MineReply),
}

impl CallerReply {
    /// Returns the reply to a request that is to be repeated after `delay`.
    pub fn busy(delay: Duration) -> Self {
        Self::Busy {
            after_ms: after_ms(delay),
        }
    }
}

#[cfg(test)]
mod tests {
    use saline_data::Value;

    use super::*;
    use crate::Arguments;

    #[test]
    fn a_call_has_a_function_with_a_name_and_arguments_of_bounded_size() {
        let call = |fun: &str, user: usize, arguments: usize| {
            let called = CallerReturn {
                request_id: RequestId([1; 16]),
                fun: fun.to_owned(),
                arg: Arguments {
                    positional: vec!["x".repeat(arguments).into()],
                    named: Vec::new(),
                }
                .pack(),
                user: "u".repeat(user),
                retcode: 0,
                success: true,
                payload: Packed::pack(&Value::Null),
                returners: Vec::new(),
            };
            called.is_within_bounds()
        };
        let longest = "m.".to_owned() + &"f".repeat(MAX_CALL_NAME - 2);
        assert!(call("test.ping", 4, 1));
        assert!(call("disk-free.all_2", MAX_CALL_NAME, 65_000));
        assert!(call(&longest, 0, 0));
        assert!(!call(&(longest + "f"), 0, 0));
        for name in ["", "a b", "test.ping\n", "Überall.ping", "a/../b"] {
            assert!(!call(name, 4, 1), "{name}");
        }
        assert!(!call("test.ping", MAX_CALL_NAME + 1, 1));
        assert!(!call("test.ping", 4, MAX_CALL_ARGUMENTS));
    }
}
