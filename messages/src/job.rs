//! A job: its function, its target and its time; and the returns of minions.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Batch, Jid, MinionId, Secrets};
use saline_data::{Packed, UnpackError, Value};
use saline_targeting::Target;

/// The packed arguments of a function. The master passes them on as they came, and unpacks them only to judge rules about
/// arguments and to show them.
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
    /// When the bytes are not a packed list, or a name occurs twice.
    pub fn unpack(&self) -> Result<Arguments, UnpackError> {
        let Value::List(mut positional) = self.0.unpack()? else {
            return Err(UnpackError::new("arguments are a list"));
        };
        let mut named: Vec<(String, Value)> = Vec::new();
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
            let mut names = HashSet::new();
            if let Some((twice, _)) = named.iter().find(|(name, _)| !names.insert(name)) {
                let shown: String = twice.chars().take(64).collect();
                return Err(UnpackError::new(format!(
                    "the argument {shown:?} occurs twice"
                )));
            }
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
    /// The arguments of the function, with a marker in the place of each secret one.
    pub arg: PackedArguments,
    /// The user who asked, as the operator's program says. It gives no rights; [`StoredJob::operator`] is
    /// who proved to be an operator.
    pub user: String,
    /// The time of publication.
    pub created: MasterTime,
    /// The time until which minions may begin.
    pub expires: MasterTime,
    /// The minions that must claim the job before they begin it, though their [`Lease`] covers it.
    pub claims: MustClaim,
}

/// The minions that must claim a job before they begin it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MustClaim {
    /// These minions, at most [`CLAIMS_NAMED`], because their sessions ended before their leases did.
    These(Vec<MinionId>),
    /// Every minion that gets the job on the topic of all: there are more whose sessions ended before their leases did than
    /// the job can name.
    EverybodyOnTopic,
    /// Every minion, however the job reached it: it is a batch, and the master grants it to a minion when
    /// the minion's turn has come.
    Everybody,
}

/// The largest number of minions that a job names in its claims. If there are more, all must claim it.
pub const CLAIMS_NAMED: usize = 64;

impl MustClaim {
    /// No minion, but for those outside of their leases.
    pub const NOBODY: Self = Self::These(Vec::new());

    /// Returns the value that names these minions, or stands for all when they are too many.
    pub fn of(minions: Vec<MinionId>) -> Self {
        if minions.len() > CLAIMS_NAMED {
            Self::EverybodyOnTopic
        } else {
            Self::These(minions)
        }
    }

    /// Whether `minion` must claim the job.
    pub fn include(&self, minion: &MinionId) -> bool {
        match self {
            Self::These(minions) => minions.contains(minion),
            Self::EverybodyOnTopic | Self::Everybody => true,
        }
    }
}

/// The promise of a master to a session: its minion counts as offered in every job of all minions that
/// is created in this time, so the minion may begin such a job without asking. It must [claim] others.
///
/// [claim]: super::MinionRequest::Claim
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lease {
    /// Jobs that are created after this time are covered.
    pub after: MasterTime,
    /// The last time at which a covered job can be created.
    pub until: MasterTime,
}

impl Lease {
    /// Whether a job that was created at this time is covered.
    pub fn covers(&self, created: MasterTime) -> bool {
        self.after < created && created <= self.until
    }
}

/// A job as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredJob {
    /// The job.
    pub job: Job,
    /// The operator whose session published it, by the name of its key. [`Job::user`] is only what that
    /// operator's program said.
    pub operator: String,
    /// How the job is carried out in batches, if it is.
    pub batch: Option<Batch>,
}

/// A job and the master's signature over it. `channel::publication` defines the signed bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedJob {
    /// The job.
    pub job: Job,
    /// Ed25519, 64 bytes.
    pub signature: Vec<u8>,
    /// The values of the secret arguments; none if there are none, or if the master has lost them. The job has
    /// their digests.
    pub secrets: Option<Secrets>,
}

/// The return of a minion, Salt's `_return`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// The job.
    pub jid: Jid,
    /// The function that ran, as the minion says. The master reports that of the job.
    pub fun: String,
    /// 0 for success; otherwise the exit code of a command.
    pub retcode: i64,
    /// Whether the function succeeded.
    pub success: bool,
    /// The value that the function returned.
    pub payload: Packed,
}

/// The retcode of a run that a crash or a restart of its minion interrupted.
pub const RETCODE_INTERRUPTED: i64 = 130;

/// The master's verdict on a return. After `Stored` and `Duplicate` the minion forgets the return.
/// The others mean that the master did not keep it: the minion sets it aside.
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
    /// The minion says that a run was interrupted, and another copy of the minion may run the job. The
    /// master asks for the job again when no such copy is left.
    Disputed,
}

impl fmt::Display for ReturnVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stored => "it is stored",
            Self::Duplicate => "the master has one already",
            Self::UnknownJob => "the master knows no such job",
            Self::NotOffered => "the job was not offered to the minion",
            Self::Disputed => "another copy of the minion may run the job",
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(value: &Value) -> Result<Arguments, UnpackError> {
        PackedArguments::from_packed(Packed::pack(value)).unpack()
    }

    #[test]
    fn what_is_no_list_is_no_arguments() {
        for value in [
            Value::Null,
            Value::from("a"),
            Value::map([("a", Value::Null)]),
        ] {
            assert!(
                unpacked(&value).is_err(),
                "a function would run without them"
            );
        }
    }

    #[test]
    fn no_name_occurs_twice() {
        let named = |names: &[&str]| {
            let marked = [("__kwarg__", Value::Bool(true))].into_iter();
            let entries = marked.chain(names.iter().map(|name| (*name, Value::Null)));
            unpacked(&Value::List(vec![Value::map(entries)]))
        };
        assert_eq!(named(&["a", "b"]).unwrap().named.len(), 2);
        assert!(named(&["a", "b", "a"]).is_err());
    }
}
