//! Tells the task that reports the minion's functions to the master when they may have changed, and lets jobs wait for the report.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// How long a job waits for the report: the master answers in milliseconds, and the job has done its work.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// The changes of the minion's functions, by their number, and which of them the master has been told.
#[derive(Debug, Default)]
pub struct FunctionChanges {
    noted: watch::Sender<u64>,
    told: Mutex<u64>,
    /// Notified when the master has been told.
    telling: Condvar,
}

impl FunctionChanges {
    /// Notes that the functions may be others than before.
    pub fn note(&self) {
        self.noted.send_modify(|number| *number += 1);
    }

    /// Returns a receiver of the number of the last change.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.noted.subscribe()
    }

    /// Notes that the master has been told of the changes up to this one.
    pub fn set_told(&self, number: u64) {
        let mut told = self.lock();
        *told = number.max(*told);
        drop(told);
        self.telling.notify_all();
    }

    /// Notes that the functions may be others, and waits some seconds until the master knows. Blocks the thread.
    pub(crate) fn note_and_wait(&self) {
        self.note();
        let number = *self.noted.borrow();
        let waited = self
            .telling
            .wait_timeout_while(self.lock(), REPORT_TIMEOUT, |told| *told < number);
        let (told, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *told < number {
            tracing::warn!(
                "the master has not been told of the changed functions for {} seconds: until it is, it may refuse jobs of new ones",
                REPORT_TIMEOUT.as_secs()
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        // Every change under this lock is complete in one step, so a poisoned lock is still valid.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_job_waits_for_the_report_of_its_own_change() {
        let changes = std::sync::Arc::new(FunctionChanges::default());
        let mut noted = changes.subscribe();
        changes.note();
        let seen = *noted.borrow_and_update();
        let job = std::thread::spawn({
            let changes = std::sync::Arc::clone(&changes);
            move || changes.note_and_wait()
        });
        noted.changed().await.unwrap();
        let second = *noted.borrow_and_update();
        changes.set_told(seen);
        assert!(!job.is_finished());
        changes.set_told(second);
        // A report that was under way arrives late.
        changes.set_told(seen);
        job.join().unwrap();
        assert_eq!(*changes.lock(), second);
    }
}
