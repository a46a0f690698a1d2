//! A job: what is to be run, by whom, for how long; and what comes back.

use serde::{Deserialize, Serialize};

use super::{Jid, MinionId, Packed, UnpackError, Value};
use crate::target::Target;

/// The positional and named arguments of a function, packed: the master passes them on unread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedArguments(Packed);

/// The positional and named arguments of a function.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Arguments {
    /// In order.
    pub positional: Vec<Value>,
    /// `key=value`, in the order in which they were typed. No name stands twice.
    pub named: Vec<(String, Value)>,
}

impl Arguments {
    /// Packs them: a list of the positional ones and, when there are named ones, a mapping of them
    /// that also holds `__kwarg__: True`: the form that Salt's events and job cache show.
    pub fn pack(&self) -> PackedArguments {
        PackedArguments(Packed::pack(&self.to_salt()))
    }

    /// The same form as a value.
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
    /// Unpacks them.
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

    /// The packed list, as the store keeps it.
    pub fn as_packed(&self) -> &Packed {
        &self.0
    }

    /// From the store.
    pub fn from_packed(packed: Packed) -> Self {
        Self(packed)
    }
}

/// Milliseconds since 1970 in UTC, on the master's clock.
pub type MasterTime = u64;

/// What the master publishes: the load of Salt's publication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its id.
    pub jid: Jid,
    /// Who is to run it. A minion matches it again by itself.
    pub target: Target,
    /// What is to be run, `module.function`.
    pub fun: String,
    /// With what.
    pub arg: PackedArguments,
    /// Who asked.
    pub user: String,
    /// When it was published.
    pub created: MasterTime,
    /// Until when it may be begun.
    pub expires: MasterTime,
}

/// A job and the master's signature over it. What is signed is in
/// `channel::publication`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedJob {
    /// The job.
    pub job: Job,
    /// Ed25519, 64 bytes.
    pub signature: Vec<u8>,
}

/// What a minion sends back, Salt's `_return`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// Which job.
    pub jid: Jid,
    /// What was run.
    pub fun: String,
    /// With what.
    pub fun_args: PackedArguments,
    /// 0 is success; what a command ended with, else.
    pub retcode: i64,
    /// Whether the function did what it was asked to.
    pub success: bool,
    /// What the function returned.
    pub payload: Packed,
}

/// The retcode of a run that a crash or a restart of its minion interrupted.
pub const RETCODE_INTERRUPTED: i64 = 130;

/// What the master says to a return. All but `Stored` and `Duplicate` refuse it for good; after any
/// of them the minion forgets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReturnVerdict {
    /// Committed to disk.
    Stored,
    /// One was there already; this one was dropped.
    Duplicate,
    /// There is no such job (any more).
    UnknownJob,
    /// The job was not offered to this minion.
    NotOffered,
}

/// Where a minion stands with a job. Every expected minion is in exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum OfferState {
    /// Published to it while its session lived; no sign of it yet.
    Offered = 0,
    /// It had no session at publication. Final.
    NotConnected = 1,
    /// Waits for it to come, until the job expires.
    Queued = 2,
    /// It said that it has begun.
    Running = 3,
    /// Its return is stored. Final.
    Returned = 4,
    /// It says that it does not match the target. Final.
    Declined = 5,
    /// The job's time passed without a beginning. Final.
    Expired = 6,
}

impl OfferState {
    /// Whether nothing more can come.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Offered | Self::Queued | Self::Running)
    }

    /// As the command line and events say it.
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

    /// From the number under which the store keeps it.
    pub fn from_number(number: i64) -> Option<Self> {
        [
            Self::Offered,
            Self::NotConnected,
            Self::Queued,
            Self::Running,
            Self::Returned,
            Self::Declined,
            Self::Expired,
        ]
        .into_iter()
        .find(|state| *state as i64 == number)
    }
}

/// A return as the store has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredReturn {
    /// Whose.
    pub minion: MinionId,
    /// See [`Return::retcode`].
    pub retcode: i64,
    /// See [`Return::success`].
    pub success: bool,
    /// See [`Return::payload`].
    pub payload: Packed,
}

/// A job as listings show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSummary {
    /// The job.
    pub job: Job,
    /// Where each expected minion stands, by id.
    pub minions: Vec<(MinionId, OfferState)>,
}
