//! Which jobs run now.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use saline_protocol::message::{Jid, Job, Value};

/// A job that runs, as `saltutil.running` shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningJob {
    /// Its id.
    pub jid: Jid,
    /// What is run.
    pub fun: String,
    /// With what, in Salt's form.
    pub arg: Value,
    /// For whom.
    pub target: String,
    /// How that is read.
    pub target_kind: &'static str,
    /// Who asked.
    pub user: String,
}

impl RunningJob {
    /// What there is to tell of `job`.
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

    /// Salt's mapping. All jobs run in the minion's own process.
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

/// Which jobs run now.
#[derive(Debug, Default)]
pub struct Running(Mutex<BTreeMap<Jid, RunningJob>>);

impl Running {
    /// Lists `job` for as long as what is returned lives.
    pub fn enter(&self, job: RunningJob) -> Entered<'_> {
        let jid = job.jid.clone();
        self.lock().insert(jid.clone(), job);
        Entered { running: self, jid }
    }

    /// All of them, the oldest first.
    pub fn list(&self) -> Vec<RunningJob> {
        self.lock().values().cloned().collect()
    }

    /// Their ids, the oldest first.
    pub fn jids(&self) -> Vec<Jid> {
        self.lock().keys().cloned().collect()
    }

    /// That one, if it runs.
    pub fn find(&self, jid: &Jid) -> Option<RunningJob> {
        self.lock().get(jid).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Jid, RunningJob>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job's place in the list.
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
