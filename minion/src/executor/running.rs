//! The table of running jobs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_data::Value;
use saline_messages::{Jid, Job};

use super::JobControl;

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
    /// The process of the job's command while one runs, otherwise the minion's own.
    pub pid: u32,
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
            pid: std::process::id(),
        }
    }

    /// Describes a job for a test.
    #[cfg(test)]
    pub(crate) fn example(jid: &str) -> Self {
        Self {
            // A malformed jid is a mistake in the test.
            jid: Jid::parse(jid).unwrap(),
            fun: "test.sleep".to_owned(),
            arg: Value::List(vec![Value::Int(600)]),
            target: "*".to_owned(),
            target_kind: "glob",
            user: "root".to_owned(),
            pid: std::process::id(),
        }
    }

    /// Returns Salt's mapping.
    pub fn to_value(&self) -> Value {
        Value::map([
            ("arg", self.arg.clone()),
            ("fun", Value::from(self.fun.as_str())),
            ("jid", Value::from(self.jid.as_str())),
            ("pid", Value::from(u64::from(self.pid))),
            ("ret", Value::from("")),
            ("tgt", Value::from(self.target.as_str())),
            ("tgt_type", Value::from(self.target_kind)),
            ("user", Value::from(self.user.as_str())),
        ])
    }
}

/// The jobs that run or wait for a thread. Clones share one table.
#[derive(Debug, Clone, Default)]
pub struct Running(Arc<Mutex<BTreeMap<Jid, Arc<JobControl>>>>);

impl Running {
    /// Enters a job that waits for a thread. It is listed from its beginning until the returned guard
    /// is dropped.
    pub fn enter(&self, job: RunningJob) -> Entered {
        let jid = job.jid.clone();
        let control = Arc::new(JobControl::new(job));
        self.lock().insert(jid.clone(), Arc::clone(&control));
        Entered {
            running: self.clone(),
            jid,
            control,
        }
    }

    /// Returns all running jobs, the oldest first.
    pub fn list(&self) -> Vec<RunningJob> {
        let jobs = self.lock();
        let begun = jobs.values().filter(|job| job.has_begun());
        begun.map(|job| job.description()).collect()
    }

    /// Returns the ids of the running jobs, the oldest first.
    pub fn jids(&self) -> Vec<Jid> {
        let jobs = self.lock();
        let begun = jobs.iter().filter(|(_, job)| job.has_begun());
        begun.map(|(jid, _)| jid.clone()).collect()
    }

    /// Returns one job, if it runs.
    pub fn find(&self, jid: &Jid) -> Option<RunningJob> {
        let control = self.control(jid)?;
        control.has_begun().then(|| control.description())
    }

    /// Returns the control of a job that runs or waits for a thread.
    pub fn control(&self, jid: &Jid) -> Option<Arc<JobControl>> {
        self.lock().get(jid).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Jid, Arc<JobControl>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The guard of a job in the table.
#[derive(Debug)]
pub struct Entered {
    running: Running,
    jid: Jid,
    control: Arc<JobControl>,
}

impl Entered {
    /// Returns the control of the job.
    pub fn control(&self) -> &JobControl {
        &self.control
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.running.lock().remove(&self.jid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_listed_from_its_beginning_to_its_return() {
        let running = Running::default();
        let job = RunningJob::example("20261121091409931549");
        let entered = running.enter(job.clone());
        assert_eq!((running.list(), running.jids()), (vec![], vec![]));
        assert_eq!(running.find(&job.jid), None);
        assert!(running.control(&job.jid).is_some());
        entered.control().begin().unwrap();
        assert_eq!(running.list(), std::slice::from_ref(&job));
        assert_eq!(running.find(&job.jid), Some(job.clone()));
        drop(entered);
        assert!(running.control(&job.jid).is_none());
    }
}
