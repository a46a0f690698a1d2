//! The progress that a run reports.

use std::time::Duration;

use saline_data::Value;
use saline_messages::{MasterTime, MinionId, MinionJobState, StoredReturn};

/// One piece of progress of a job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// A minion returned.
    Returned(MinionReturn),
    /// A minion will not return, or did not return in time.
    Absent(Absent),
    /// The job is held up by minions that are gone and may come back: every one that has the job, or, in a batch that
    /// nobody has, every one whose turn has not come.
    HeldUp {
        /// The minions.
        minions: Vec<MinionId>,
        /// How long they are waited for at most; none in a batch that goes on without them.
        within: Option<Duration>,
        /// Whether others wait for their turn in a batch: the master goes on without minions that were gone for two
        /// heartbeats.
        in_turns: bool,
    },
    /// These minions run as many jobs as they may at once. Each begins the job when another one has ended there, and is
    /// waited for.
    Busy(Vec<MinionId>),
}

/// The return of a minion.
#[derive(Debug, Clone, PartialEq)]
pub struct MinionReturn {
    /// The minion's id.
    pub minion: MinionId,
    /// 0 for success; otherwise the exit code of a command.
    pub retcode: i64,
    /// Whether the function succeeded.
    pub success: bool,
    /// The value that the function returned.
    pub value: Value,
}

impl MinionReturn {
    /// Whether the return counts as failed.
    pub fn failed(&self) -> bool {
        self.retcode != 0 || !self.success
    }

    /// Reads the return of `minion` from the data of its event. Returns none when the event does not
    /// carry the value, which is then in the store.
    pub(crate) fn from_event(minion: &MinionId, mut data: Value) -> Option<Self> {
        let retcode = data.get("retcode")?.as_i64()?;
        let success = data.get("success")?.as_bool()?;
        let value = data.get_mut("return")?;
        Some(Self {
            minion: minion.clone(),
            retcode,
            success,
            value: std::mem::take(value),
        })
    }
}

impl From<StoredReturn> for MinionReturn {
    /// A damaged payload is shown as bytes, so that it does not hide the other returns.
    fn from(stored: StoredReturn) -> Self {
        Self {
            value: stored.payload.unpack_or_show(),
            minion: stored.minion,
            retcode: stored.retcode,
            success: stored.success,
        }
    }
}

/// A minion without a return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// The minion's id, or a name in a list for which there is no key and which may be no valid id.
    pub name: String,
    /// The reason.
    pub absence: Absence,
}

/// Whether a minion that has a job is in contact with the master, and whether it knows the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Contact {
    /// The minion is present.
    #[default]
    Present,
    /// The minion is gone.
    Silent,
    /// The minion is gone because its machine reboots or shuts down, as was planned.
    PlannedEnd,
    /// The minion is present, and does not know the job that it runs: another start of it began the job.
    Disputed,
}

/// The reason why a minion has no return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Absence {
    /// The minion had no session when the job was published, and will not run it.
    NotConnected,
    /// The minion was offered the job and gave no sign of life within the timeout. It may still begin until the
    /// job expires.
    Offered,
    /// The minion began the job and is gone. Its return is stored when it reconnects.
    NoResponse,
    /// The minion has the job, and its machine reboots or shuts down, as was planned. It returns when it is back.
    PlannedEnd,
    /// The minion began the job, and the start of it that is present does not know the job. The one that began may run
    /// it.
    Disputed,
    /// The minion may begin when it connects, until the job expires.
    Queued,
    /// The job is a batch, and the minion's turn has not come.
    Waiting,
    /// The minion runs the job.
    Running,
    /// The minion reports that it does not match the target.
    Declined,
    /// The minion did not begin in time, and will not run the job.
    Expired,
    /// The job has expired, and the minion has not said whether it began it.
    Unconfirmed {
        /// The last expiry that it acknowledged; none when that is not known.
        since: Option<MasterTime>,
    },
    /// The minion began and no longer knows the job: no return will come.
    LostTrack,
    /// The minion lost its memory of the time in which it was handed the job, and will not run it now.
    MayHaveRun,
    /// The job was cancelled before the minion began.
    Cancelled,
    /// The minion's key was deleted or rejected before it returned.
    Withdrawn,
    /// The minion returned, and the master's store was restored from a copy that is older.
    ReturnedAndLost,
    /// The store has the return, and the master did not deliver it.
    NotDelivered,
    /// The target's list names it, but there is no key for it.
    NoKey,
}

impl Absence {
    /// Returns the reason why a minion in `state` has not returned; none when it has.
    pub fn of(state: MinionJobState, contact: Contact) -> Option<Self> {
        Some(match state {
            MinionJobState::Offered if contact == Contact::PlannedEnd => Self::PlannedEnd,
            MinionJobState::Offered => Self::Offered,
            MinionJobState::NotConnected => Self::NotConnected,
            MinionJobState::Queued => Self::Queued,
            MinionJobState::Waiting => Self::Waiting,
            MinionJobState::Running => match contact {
                Contact::Present => Self::Running,
                Contact::Silent => Self::NoResponse,
                Contact::PlannedEnd => Self::PlannedEnd,
                Contact::Disputed => Self::Disputed,
            },
            MinionJobState::Returned => return None,
            MinionJobState::Declined => Self::Declined,
            MinionJobState::Expired => Self::Expired,
            MinionJobState::Unconfirmed => Self::Unconfirmed { since: None },
            MinionJobState::LostTrack => Self::LostTrack,
            MinionJobState::MayHaveRun => Self::MayHaveRun,
            MinionJobState::Cancelled => Self::Cancelled,
            MinionJobState::Withdrawn => Self::Withdrawn,
            MinionJobState::ReturnedAndLost => Self::ReturnedAndLost,
        })
    }

    /// Returns the name of the reason for logs and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotConnected => "not connected",
            Self::Offered => "offered",
            Self::NoResponse => "no response",
            Self::PlannedEnd => "rebooting (planned)",
            Self::Disputed => "disputed",
            Self::Queued => "queued",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Declined => "declined",
            Self::Expired => "expired",
            Self::Unconfirmed { .. } => "unconfirmed",
            Self::LostTrack => "lost track",
            Self::MayHaveRun => "may have run",
            Self::Cancelled => "cancelled",
            Self::Withdrawn => "withdrawn",
            Self::ReturnedAndLost => "returned and lost",
            Self::NotDelivered => "return not delivered",
            Self::NoKey => "no key",
        }
    }
}
