//! A job: its function, its target and its time; and the returns of minions.

use serde::{Deserialize, Serialize};

use super::{Jid, MinionId, Packed, UnpackError, Value};
use crate::target::Target;

/// The packed arguments of a function. The master passes them on unread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedArguments(Packed);

/// The positional and named arguments of a function.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Arguments {
    /// The positional arguments in order.
    pub positional: Vec<Value>,
    /// The `key=value` arguments in the order in which they were typed. No name occurs twice.
    pub named: Vec<(String, Value)>,
}

impl Arguments {
    /// Packs the arguments in the form that Salt's events and job cache show: a list of the
    /// positional ones and, if there are named ones, a mapping of them that also holds `__kwarg__:
    /// True`.
    pub fn pack(&self) -> PackedArguments {
        PackedArguments(Packed::pack(&self.to_salt()))
    }

    /// Returns the same form as a value.
    pub fn to_salt(&self) -> Value {
        let mut list = self.positional.clone();
        if !self.named.is_empty() {
            let mut entries = vec![("__kwarg__".to_owned(), Value::Bool(true))];
            entries.extend(self.named.iter().cloned());
            list.push(Value::Map(entries));
        }
        Value::List(list)
    }
}

impl PackedArguments {
    /// Unpacks the arguments.
    ///
    /// # Errors
    /// When the bytes are not a packed list.
    pub fn unpack(&self) -> Result<Arguments, UnpackError> {
        let Value::List(mut positional) = self.0.unpack()? else {
            return Ok(Arguments::default());
        };
        let mut named = Vec::new();
        if let Some(Value::Map(entries)) = positional.last()
            && entries
                .iter()
                .any(|(key, value)| key == "__kwarg__" && *value == Value::Bool(true))
        {
            named = entries
                .iter()
                .filter(|(key, _)| key != "__kwarg__")
                .cloned()
                .collect();
            positional.pop();
        }
        Ok(Arguments { positional, named })
    }

    /// Returns the packed list, as the store keeps it.
    pub fn as_packed(&self) -> &Packed {
        &self.0
    }

    /// Wraps a packed list from the store.
    pub fn from_packed(packed: Packed) -> Self {
        Self(packed)
    }
}

/// Milliseconds since 1970 in UTC, on the master's clock.
pub type MasterTime = u64;

/// A job as the master publishes it; Salt's `load`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The job's id.
    pub jid: Jid,
    /// The minions that run the job. A minion matches the target itself.
    pub target: Target,
    /// The function, `module.function`.
    pub fun: String,
    /// The arguments of the function.
    pub arg: PackedArguments,
    /// The user who asked.
    pub user: String,
    /// The time of publication.
    pub created: MasterTime,
    /// The time until which minions may begin.
    pub expires: MasterTime,
}

/// A job and the master's signature over it. `channel::publication` defines the signed bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedJob {
    /// The job.
    pub job: Job,
    /// Ed25519, 64 bytes.
    pub signature: Vec<u8>,
}

/// The return of a minion, Salt's `_return`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// The job.
    pub jid: Jid,
    /// The function that ran.
    pub fun: String,
    /// The arguments of the function.
    pub fun_args: PackedArguments,
    /// 0 for success; otherwise the exit code of a command.
    pub retcode: i64,
    /// Whether the function succeeded.
    pub success: bool,
    /// The value that the function returned.
    pub payload: Packed,
}

/// The retcode of a run that a crash or a restart of its minion interrupted.
pub const RETCODE_INTERRUPTED: i64 = 130;

/// The master's verdict on a return. After any verdict the minion forgets the return; `UnknownJob`
/// and `NotOffered` mean that the master did not keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReturnVerdict {
    /// The return is committed to disk.
    Stored,
    /// The store has a return of this minion already; this one was dropped.
    Duplicate,
    /// The store has no such job, or no longer.
    UnknownJob,
    /// The job was not offered to the minion.
    NotOffered,
}

/// The state of a minion in a job. Every expected minion is in exactly one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum OfferState {
    /// The job was published to the minion while its session lived; the minion has not reported
    /// yet.
    Offered = 0,
    /// The minion had no session at publication. Final.
    NotConnected = 1,
    /// The job waits for the minion to connect, until it expires.
    Queued = 2,
    /// The minion reported that it has begun.
    Running = 3,
    /// The minion's return is stored. Final.
    Returned = 4,
    /// The minion reported that it does not match the target. Final.
    Declined = 5,
    /// The job expired before the minion began. Final.
    Expired = 6,
}

impl OfferState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Offered,
        Self::NotConnected,
        Self::Queued,
        Self::Running,
        Self::Returned,
        Self::Declined,
        Self::Expired,
    ];

    /// Whether the state is final.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Offered | Self::Queued | Self::Running)
    }

    /// Returns the name that the command line and events show.
    pub fn name(self) -> &'static str {
        match self {
            Self::Offered => "offered",
            Self::NotConnected => "not connected",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Returned => "returned",
            Self::Declined => "declined",
            Self::Expired => "expired",
        }
    }

    /// Returns the state that the store keeps under this number.
    pub fn from_number(number: i64) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|state| *state as i64 == number)
    }
}

/// A return as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredReturn {
    /// The receipt number: every return of a master has one above all returns before it.
    pub receipt: u64,
    /// The minion that returned.
    pub minion: MinionId,
    /// See [`Return::retcode`].
    pub retcode: i64,
    /// See [`Return::success`].
    pub success: bool,
    /// See [`Return::payload`].
    pub payload: Packed,
}
