//! The table of running jobs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_messages::Jid;

use super::{JobControl, RunningJob};

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

    /// Returns the number of jobs that wait for a thread.
    pub fn waiting(&self) -> usize {
        let jobs = self.lock();
        jobs.values().filter(|job| !job.has_begun()).count()
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

    /// Returns the same for another thread.
    pub fn shared_control(&self) -> Arc<JobControl> {
        Arc::clone(&self.control)
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
        assert_eq!(running.waiting(), 1);
        assert_eq!(running.find(&job.jid), None);
        assert!(running.control(&job.jid).is_some());
        entered.control().begin().unwrap();
        assert_eq!(running.list(), std::slice::from_ref(&job));
        assert_eq!(running.waiting(), 0);
        assert_eq!(running.find(&job.jid), Some(job.clone()));
        drop(entered);
        assert!(running.control(&job.jid).is_none());
    }
}
