//! What a run tells while it goes on.

use saline_protocol::message::{MinionId, OfferState, StoredReturn, Value};

/// One thing that became known about a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// A minion returned.
    Returned(MinionReturn),
    /// Nothing comes from this one, or nothing that was waited for.
    Absent(Absent),
}

/// What a minion returned.
#[derive(Debug, Clone, PartialEq)]
pub struct MinionReturn {
    /// Which.
    pub minion: MinionId,
    /// 0 is success; what a command ended with, else.
    pub retcode: i64,
    /// Whether the function did what it was asked to.
    pub success: bool,
    /// What it returned.
    pub value: Value,
}

impl MinionReturn {
    /// Whether it counts as failed.
    pub fn failed(&self) -> bool {
        self.retcode != 0 || !self.success
    }
}

impl From<StoredReturn> for MinionReturn {
    /// One minion's damaged payload is shown as it is, and spoils nobody else's.
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
    /// Its id; or what a list named and nobody knows, which need not be an id.
    pub name: String,
    /// Why.
    pub absence: Absence,
}

/// Why there is no return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Absence {
    /// It had no session when the job was published, and will not run it.
    NotConnected,
    /// It gave no sign of life within the timeout. It may still begin until the job expires.
    NoResponse,
    /// It began, and its session is gone. Its return is kept when it comes back.
    Silent,
    /// It may begin when it connects, until the job expires.
    Queued,
    /// It runs.
    Running,
    /// It says that it does not match the target.
    Declined,
    /// It did not begin in time, and will not run the job.
    Expired,
    /// A list named it, and no key is known of it.
    Unknown,
}

impl Absence {
    /// Why a minion in `state` has not returned; none when it has.
    pub fn of(state: OfferState, silent: bool) -> Option<Self> {
        Some(match state {
            OfferState::Offered => Self::NoResponse,
            OfferState::NotConnected => Self::NotConnected,
            OfferState::Queued => Self::Queued,
            OfferState::Running if silent => Self::Silent,
            OfferState::Running => Self::Running,
            OfferState::Returned => return None,
            OfferState::Declined => Self::Declined,
            OfferState::Expired => Self::Expired,
        })
    }

    /// As logs and reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotConnected => "not connected",
            Self::NoResponse => "no response",
            Self::Silent => "silent",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Declined => "declined",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
        }
    }
}
