//! The plan of a run: which jobs are published, which files are fetched and which faults are injected, and when.
//!
//! A plan is a function of the seed, the length, the number of minions and the sabotage, and of nothing
//! else: neither of the transport nor of the machine.

mod fault;
mod file_order;
mod generate;
mod generate_jobs;
mod job;
mod output;
mod spec;

use std::time::Duration;

pub(crate) use fault::{Fault, FaultKind, LinkFault};
pub(crate) use file_order::{FileAct, FileOrder};
pub(crate) use generate::generate;
pub(crate) use job::{JobAct, JobPlan, PublishMode, Token};
pub(crate) use output::{BEGUN, ENDED, FAILS_WITH, INSTANCE, LEDGER, Output, command};
pub(crate) use spec::PlanSpec;

/// How long after its publication a minion may begin a job, in all runs.
pub(crate) const JOB_TTL: Duration = Duration::from_secs(10);

/// How many servers of NATS there are, over that transport.
pub(crate) const NODES: usize = 3;

/// How long `saline` waits for a sign of life (`-t`), in all runs.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(4);

/// Jobs, orders about files and faults, each in the order of their times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) jobs: Vec<JobPlan>,
    pub(crate) file_orders: Vec<FileOrder>,
    pub(crate) faults: Vec<FaultPlan>,
}

/// A fault, when it begins and how long it lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FaultPlan {
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
    pub(crate) fault: Fault,
}
