//! Jobs that run by the clock, on a minion and on a master: Salt's `schedule`.
//!
//! | module | has |
//! |---|---|
//! | `entry` | a job of a schedule, read from a mapping with Salt's keywords |
//! | `time_of_day`, `timing` | the times at which a job is due |
//! | `past` | the due times that were served, so that none is served twice when the clock is set |
//! | `exceptions` | single runs that do not take place, or take place besides |
//! | `runs`, `skip_reason` | the runs that are due, and those that do not take place |
//! | `job`, `schedule` | the state machine: takes the time, and returns what is due. It has no clock, no task and no file |
//! | `run_memory`, `saved_jobs` | the files: what ran, and what was added while the daemon ran |
//! | `scheduler_state` | what a schedule has in memory: the jobs of the configuration, and what functions have changed |
//! | `pillar_jobs` | the jobs that a minion's pillar brings while the daemon runs |
//! | `scheduler` | drives the machine by the clock of a daemon, for all who change or read it |

mod entry;
mod exceptions;
mod job;
mod past;
mod pillar_jobs;
mod run_memory;
mod runs;
mod saved_jobs;
mod schedule;
mod scheduler;
mod scheduler_state;
mod skip_reason;
#[cfg(test)]
mod tests;
mod time_of_day;
mod timing;

pub use entry::{Entry, EntryError, KEYWORDS, MAX_ENTRIES};
pub use jiff::Timestamp;

pub use exceptions::{Exceptions, MAX_EXCEPTIONS};
pub use runs::{Due, Missed, Polled, Remembered, Skip, Status, Time};
pub use schedule::Schedule;
pub use scheduler::{RunGuard, Scheduler, SchedulerFiles};
pub use scheduler_state::ChangeError;
pub use skip_reason::SkipReason;
pub use time_of_day::read_moment;
pub use timing::Timing;
