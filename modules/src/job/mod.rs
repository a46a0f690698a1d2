//! The jobs that run: their descriptions, and how another job signals or ends one.

mod job_control;
mod job_signal;
mod running;
mod running_job;
mod scheduled_call;
mod stop;

pub use job_control::{CommandProcess, JobControl, StartError, Woken};
pub use job_signal::{Ending, SignalEffect, parse_signal};
pub use running::{Entered, Running};
pub use running_job::RunningJob;
pub use scheduled_call::ScheduledCall;
pub use stop::{Stop, timespec, wait_for_any};
