//! The table of running jobs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use saline_protocol::message::{Jid, Job, Value};

/// A running job, as `saltutil.running` shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningJob {
    /// The job's id.
    pub jid: Jid,
    /// The function.
    pub fun: String,
    /// The arguments, in Salt's form.
    pub arg: Value,
    /// The target expression.
    pub target: String,
    /// The kind of the target.
    pub target_kind: &'static str,
    /// The user who asked.
    pub user: String,
}

impl RunningJob {
    /// Describes `job`.
    pub fn of(job: &Job) -> Self {
        Self {
            jid: job.jid.clone(),
            fun: job.fun.clone(),
            arg: job.arg.as_packed().unpack().unwrap_or_default(),
            target: job.target.expression.clone(),
            target_kind: job.target.kind.name(),
            user: job.user.clone(),
        }
    }

    /// Returns Salt's mapping. All jobs run in the minion's own process.
    pub fn to_value(&self) -> Value {
        Value::map([
            ("arg", self.arg.clone()),
            ("fun", Value::from(self.fun.as_str())),
            ("jid", Value::from(self.jid.as_str())),
            ("pid", Value::from(u64::from(std::process::id()))),
            ("ret", Value::from("")),
            ("tgt", Value::from(self.target.as_str())),
            ("tgt_type", Value::from(self.target_kind)),
            ("user", Value::from(self.user.as_str())),
        ])
    }
}

/// The jobs that run now.
#[derive(Debug, Default)]
pub struct Running(Mutex<BTreeMap<Jid, RunningJob>>);

impl Running {
    /// Lists `job` until the returned guard is dropped.
    pub fn enter(&self, job: RunningJob) -> Entered<'_> {
        let jid = job.jid.clone();
        self.lock().insert(jid.clone(), job);
        Entered { running: self, jid }
    }

    /// Returns all running jobs, the oldest first.
    pub fn list(&self) -> Vec<RunningJob> {
        self.lock().values().cloned().collect()
    }

    /// Returns the ids of the running jobs, the oldest first.
    pub fn jids(&self) -> Vec<Jid> {
        self.lock().keys().cloned().collect()
    }

    /// Returns one job, if it runs.
    pub fn find(&self, jid: &Jid) -> Option<RunningJob> {
        self.lock().get(jid).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Jid, RunningJob>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The guard of a job in the table.
#[derive(Debug)]
pub struct Entered<'a> {
    running: &'a Running,
    jid: Jid,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.running.lock().remove(&self.jid);
    }
}
