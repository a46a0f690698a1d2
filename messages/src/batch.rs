//! Batches: jobs that the master offers to a few minions at a time.

use serde::{Deserialize, Serialize};

/// The number of minions that may have a job at once, Salt's `-b N` and `-b N%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BatchSize {
    /// This many minions; 0 counts as 1.
    Minions(u32),
    /// This percentage of the minions that the target matches, rounded down, and at least one minion.
    Percent(u8),
}

impl BatchSize {
    /// Returns the number of minions for a target that matches `matched` of them: at least 1.
    pub fn of(self, matched: usize) -> u32 {
        let size = match self {
            Self::Minions(size) => size,
            Self::Percent(percent) => {
                u32::try_from(matched.saturating_mul(usize::from(percent)) / 100)
                    .unwrap_or(u32::MAX)
            }
        };
        size.max(1)
    }
}

/// The operator's wishes about batches when it publishes a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BatchRequest {
    /// The size; none for all minions at once, unless the safe limit makes the job a batch.
    pub size: Option<BatchSize>,
    /// How long the slot of a minion that has ended stays free, in milliseconds.
    pub wait_ms: u64,
    /// How long a minion may have its slot, in milliseconds; 0 for as long as it runs the job.
    pub timeout_ms: u64,
    /// Whether a failed return ends the batch for the minions whose turn has not come.
    pub failhard: bool,
    /// Without a size, a job that matches at least so many minions becomes a batch; 0 for never, none for
    /// the master's `batch_safe_limit`.
    pub safe_limit: Option<u32>,
    /// The size of such a batch; none for the master's `batch_safe_size`.
    pub safe_size: Option<u32>,
}

/// How a job is carried out in batches: the master offers it to `size` minions, and to the next one whenever one of
/// them has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The largest number of minions that have the job at once, at least 1.
    pub size: u32,
    /// See [`BatchRequest::wait_ms`].
    pub wait_ms: u64,
    /// See [`BatchRequest::timeout_ms`].
    pub timeout_ms: u64,
    /// See [`BatchRequest::failhard`].
    pub failhard: bool,
    /// Whether the job is queued for minions that are away when all others have ended.
    pub queues: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_at_least_one_minion() {
        for (size, matched, expected) in [
            (BatchSize::Minions(0), 5, 1),
            (BatchSize::Minions(7), 5, 7),
            (BatchSize::Percent(0), 5, 1),
            (BatchSize::Percent(10), 5, 1),
            (BatchSize::Percent(50), 5, 2),
            (BatchSize::Percent(100), 5, 5),
            (BatchSize::Percent(255), usize::MAX, u32::MAX),
        ] {
            assert_eq!(size.of(matched), expected, "{size:?} of {matched}");
        }
    }
}
