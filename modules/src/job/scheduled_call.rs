//! A run of a job of the minion's own schedule.

use saline_messages::ScheduledRun;
use serde::{Deserialize, Serialize};

/// A run of a job of the minion's own schedule, as it is noted until the master has its return.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledCall {
    /// The run, as the master stores it.
    pub run: ScheduledRun,
    /// Whether the master is to have the return.
    pub return_job: bool,
}
