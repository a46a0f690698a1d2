//! The jobs that run by the clock, as the configuration of a daemon has them.

use saline_schedule::{Entry, Missed};

/// `schedule` and `schedule_missed`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScheduleConfig {
    /// `schedule`: the jobs, each with its name.
    pub jobs: Vec<(String, Entry)>,
    /// `schedule_missed`: what becomes of runs that were due while the daemon was down.
    pub missed: Missed,
}
