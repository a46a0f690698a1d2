//! Why a run that is due does not take place.

use std::fmt;

/// Why a run does not take place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// As many runs of the job are under way as may be.
    MaxRunning,
    /// The daemon was down when it was due.
    Missed,
    /// It is before the job's `after`.
    After,
    /// It is behind the job's `until`.
    Until,
    /// It is outside of the job's `range`.
    Range,
    /// Somebody had this run skipped, or postponed.
    Asked,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MaxRunning => "as many runs of it are under way as `maxrunning` allows",
            Self::Missed => {
                "it was due while the daemon was down (schedule_missed: run_once runs such jobs)"
            }
            Self::After => "it is not yet `after`",
            Self::Until => "`until` is over",
            Self::Range => "it is outside of `range`",
            Self::Asked => "schedule.skip_job or schedule.postpone_job was called for it",
        })
    }
}
