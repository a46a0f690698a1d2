//! The states of a minion in a job. `docs/states.md` says what moves them.

use serde::{Deserialize, Serialize};

/// The state of a minion in a job. Every expected minion is in exactly one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum MinionJobState {
    /// The job was handed over to the minion: published while its session lived, or given to it when
    /// it came back. The minion has not reported yet.
    Offered = 0,
    /// The minion had no session at publication, and will not run the job. Final.
    NotConnected = 1,
    /// The job waits for the minion to connect, until it expires. It was not handed over yet.
    Queued = 2,
    /// The minion reported that it has begun.
    Running = 3,
    /// The minion's return is stored. Final.
    Returned = 4,
    /// The minion reported that it does not match the target. Final.
    Declined = 5,
    /// The job expired before the minion began: the minion said so, or the job was never handed over to
    /// it. Final.
    Expired = 6,
    /// The minion had begun, and no longer knows the job. No return will come. Final.
    LostTrack = 7,
    /// The job was handed over to the minion before its machine lost power, or before its disk was
    /// replaced; or the master's store was put back from a copy, and the job may have been handed over after the copy
    /// was made. Nobody knows whether it ran. It will not run from now on. Final.
    MayHaveRun = 8,
    /// The job was cancelled before the minion began, and the minion will not run it. Final.
    Cancelled = 9,
    /// The minion's key was deleted or rejected before it returned. Final.
    Withdrawn = 10,
    /// The minion returned, and the master has lost the return: its store was restored from an older
    /// copy. Final.
    ReturnedAndLost = 11,
    /// The job has expired, and the minion has not said yet whether it began in time.
    Unconfirmed = 12,
    /// The job is a batch, and the minion's turn has not come, or it has not claimed the job since.
    Waiting = 13,
}

impl MinionJobState {
    /// Every state.
    pub const ALL: [Self; 14] = [
        Self::Offered,
        Self::NotConnected,
        Self::Queued,
        Self::Running,
        Self::Returned,
        Self::Declined,
        Self::Expired,
        Self::LostTrack,
        Self::MayHaveRun,
        Self::Cancelled,
        Self::Withdrawn,
        Self::ReturnedAndLost,
        Self::Unconfirmed,
        Self::Waiting,
    ];

    /// Whether the state is final.
    pub fn is_final(self) -> bool {
        !matches!(
            self,
            Self::Offered | Self::Queued | Self::Running | Self::Unconfirmed | Self::Waiting
        )
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
            Self::LostTrack => "lost track",
            Self::MayHaveRun => "may have run",
            Self::Cancelled => "cancelled",
            Self::Withdrawn => "withdrawn",
            Self::ReturnedAndLost => "returned and lost",
            Self::Unconfirmed => "unconfirmed",
            Self::Waiting => "waiting",
        }
    }

    /// Returns the state that the store keeps under this number.
    pub fn from_number(number: i64) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|state| *state as i64 == number)
    }
}
