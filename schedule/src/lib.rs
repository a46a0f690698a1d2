//! Jobs that run by the clock, on a minion and on a master: Salt's `schedule`.
//!
//! | module | has |
//! |---|---|
//! | `entry` | a job of a schedule, read from a mapping with Salt's keywords |
//! | `time_of_day`, `timing` | the times at which a job is due |
//! | `past` | the due times that were served, so that none is served twice when the clock is set |
//! | `schedule` | the state machine: takes the time, and returns what is due. It has no clock, no task and no file |
//! | `run_memory`, `saved_jobs` | the files: what ran, and what was added while the daemon ran |
//! | `scheduler` | drives the machine by the clock of a daemon, for all who change or read it |

mod entry;
mod past;
mod run_memory;
mod saved_jobs;
mod schedule;
mod scheduler;
#[cfg(test)]
mod tests;
mod time_of_day;
mod timing;

pub use entry::{Entry, EntryError, KEYWORDS, MAX_ENTRIES};
pub use schedule::{Due, Missed, Polled, Remembered, Schedule, Skip, SkipReason, Status, Time};
pub use scheduler::{ChangeError, RunGuard, Scheduler, SchedulerFiles};
pub use timing::Timing;
