//! Runs functions on threads of their own, apart from the runtime that serves heartbeats.

mod job_control;
mod job_signal;
mod pool;
mod running;
mod running_job;
mod stop;

pub use job_control::{CommandProcess, JobControl, StartError, Woken};
pub use job_signal::{Ending, SignalEffect, parse_signal};
pub use pool::{Permit, Pool};
pub use running::{Entered, Running};
pub use running_job::RunningJob;
pub use stop::{Stop, timespec, wait_for_any};
