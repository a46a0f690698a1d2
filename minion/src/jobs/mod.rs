//! Jobs from their arrival until the master has their returns.

mod announcements;
mod batch_size;
mod claims;
mod job_processes;
pub(crate) mod job_runner;
pub(crate) mod pool;
mod return_parts;
pub(crate) mod return_sender;
mod run_job;
pub(crate) mod scheduled_jobs;
