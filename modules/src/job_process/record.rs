//! The record of a job in its folder, from which the next minion knows which job a process runs.

use saline_data::Value;
use saline_messages::{Arguments, Jid, Job, MasterTime, PackedArguments};
use saline_targeting::TargetKind;
use serde::{Deserialize, Serialize};

use crate::job::{RunningJob, ScheduledCall};

/// The largest arguments that a record holds, in bytes. They are only shown.
const MAX_ARGUMENTS: usize = 64 * 1024;

/// The record of a job that runs in a process of its own. Secret arguments are markers in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job.
    pub jid: Jid,
    /// The function.
    pub fun: String,
    /// The arguments; a text that says their size when they are large.
    pub arg: PackedArguments,
    /// The target expression.
    pub target: String,
    /// The kind of the target.
    pub target_kind: TargetKind,
    /// The user who asked.
    pub user: String,
    /// The time until which the job may come again.
    pub expires: MasterTime,
    /// What the master is to have of it, if it is a job of the minion's own schedule.
    pub scheduled: Option<ScheduledCall>,
    /// The boot and the place of the minion's state, as the minion encodes them.
    pub(super) place: Vec<u8>,
    /// The device and the number of the job's folder. A copy of it has others.
    pub(super) folder: (u64, u64),
}

impl JobRecord {
    /// Describes a job that a minion in this place starts in this folder.
    pub(super) fn of(
        job: &Job,
        scheduled: Option<ScheduledCall>,
        place: Vec<u8>,
        folder: (u64, u64),
    ) -> Self {
        let size = job.arg.as_packed().as_bytes().len();
        let arg = match size > MAX_ARGUMENTS {
            false => job.arg.clone(),
            true => Arguments {
                positional: vec![Value::from(format!("({size} bytes of arguments)"))],
                named: Vec::new(),
            }
            .pack(),
        };
        Self {
            jid: job.jid.clone(),
            fun: job.fun.clone(),
            arg,
            target: job.target.expression.clone(),
            target_kind: job.target.kind,
            user: job.user.clone(),
            expires: job.expires,
            scheduled,
            place,
            folder,
        }
    }

    /// Returns the job as it is listed.
    pub fn running_job(&self) -> RunningJob {
        RunningJob {
            jid: self.jid.clone(),
            fun: self.fun.clone(),
            arg: self.arg.as_packed().unpack().unwrap_or_default(),
            target: self.target.clone(),
            target_kind: self.target_kind.name(),
            user: self.user.clone(),
            pid: std::process::id(),
        }
    }
}
