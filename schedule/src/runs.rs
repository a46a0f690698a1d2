//! What goes into the state machine of a schedule and comes out of it: the time, and the runs that are due or are not.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::entry::Entry;
use crate::exceptions::Exceptions;
use crate::skip_reason::SkipReason;

/// The two clocks at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    /// The wall clock, which may be set.
    pub wall: Timestamp,
    /// The monotonic clock, from any beginning.
    pub elapsed: Duration,
}

/// What becomes of the due times that passed while the daemon was down: `schedule_missed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missed {
    /// They are skipped, and the log says so.
    #[default]
    Skip,
    /// The job runs once for all of them.
    RunOnce,
}

/// What is remembered of a job over a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The times at which the job was due, in words: with other times nothing was missed.
    pub timing: String,
    /// When the job ran last.
    pub last_run: Option<Timestamp>,
    /// The time up to which its due times are over.
    pub cursor: Timestamp,
    /// Ranges of due times that were served.
    pub served: Vec<(Timestamp, Timestamp)>,
    /// What was asked of single runs.
    pub exceptions: Exceptions,
}

/// A run that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct Due {
    /// The name of the job.
    pub name: String,
    /// The job.
    pub entry: Arc<Entry>,
    /// The time at which it was due.
    pub due: Timestamp,
    /// By how much the run is later than that, and than the delay of its splay.
    pub late: Duration,
    /// Whether further due times passed meanwhile, which have no run of their own.
    pub stands_for_more: bool,
}

/// A run that was due and does not take place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The name of the job.
    pub name: String,
    /// The time at which it was due.
    pub due: Timestamp,
    /// The reason.
    pub reason: SkipReason,
}

/// What happened at one time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Polled {
    /// The runs that are to begin.
    pub due: Vec<Due>,
    /// The runs that do not take place.
    pub skipped: Vec<Skip>,
    /// Jobs of which served due times were forgotten, since the clock went back by more than a day.
    pub forgot: Vec<String>,
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// The job.
    pub entry: Arc<Entry>,
    /// Whether it runs by the clock.
    pub enabled: bool,
    /// When the next run begins, by the wall clock; none when there is none.
    pub next: Option<Timestamp>,
    /// When the job ran last.
    pub last_run: Option<Timestamp>,
    /// How many runs are under way.
    pub running: usize,
    /// The last run that did not take place.
    pub skipped: Option<(Timestamp, SkipReason)>,
}
