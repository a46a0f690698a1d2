//! The runs that are under way or have just ended.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_protocol::message::{Jid, PackedArguments, RequestId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The largest number of runs that are under way at once.
pub(super) const RUNNING_MOST: usize = 32;

/// How many more may be under way of functions that look at runs or end them.
pub(super) const ABOUT_RUNS_MOST: usize = 8;

/// The largest number of runs that have ended and can still be read.
const ENDED_MOST: usize = 256;

/// The most that the ends of runs may come to, in bytes: the oldest go first.
const ENDED_BYTES: usize = 256 * 1024 * 1024;

/// How far a run has come.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// It is being stored.
    Beginning,
    /// It is under way.
    Running,
    /// It has ended: the encoded [`RunnerEnd`](saline_protocol::message::RunnerEnd).
    Ended(Arc<[u8]>),
    /// It cannot be begun, for this reason.
    Failed(String),
    /// The master stops.
    Stopped,
}

/// One run.
#[derive(Debug)]
pub(crate) struct RunState {
    pub(crate) request_id: RequestId,
    pub(crate) jid: Jid,
    pub(crate) fun: String,
    pub(crate) arg: PackedArguments,
    pub(crate) user: String,
    pub(crate) operator: String,
    pub(crate) phase: watch::Sender<Phase>,
    /// Cancelled when the run is to end before it is done.
    pub(crate) kill: CancellationToken,
    /// Whether the job store keeps the end of the run.
    pub(crate) is_kept: AtomicBool,
}

impl RunState {
    /// Returns the end of the run; none while it has not ended.
    pub(crate) fn end(&self) -> Option<Arc<[u8]>> {
        match &*self.phase.borrow() {
            Phase::Ended(end) => Some(Arc::clone(end)),
            _ => None,
        }
    }

    /// Whether the run has begun and not ended.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Beginning | Phase::Running)
    }

    /// Whether the job store keeps the end of the run.
    pub(super) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::SeqCst)
    }
}

/// The runs of one master, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct RunTable {
    runs: Mutex<VecDeque<Arc<RunState>>>,
}

impl RunTable {
    /// Adds a run, unless `most` are under way or a run of the same request is here.
    ///
    /// # Errors
    /// The run of the same request, or none when there are too many.
    pub(super) fn add(
        &self,
        run: &Arc<RunState>,
        most: usize,
    ) -> Result<(), Option<Arc<RunState>>> {
        let mut runs = self.lock();
        if let Some(before) = runs.iter().find(|known| known.request_id == run.request_id) {
            return Err(Some(Arc::clone(before)));
        }
        if runs.iter().filter(|known| known.is_under_way()).count() >= most {
            return Err(None);
        }
        runs.push_back(Arc::clone(run));
        Ok(())
    }

    /// Returns the run that this request of the operator began.
    pub(super) fn find(&self, operator: &str, request: RequestId) -> Option<Arc<RunState>> {
        let runs = self.lock();
        let found = runs
            .iter()
            .find(|run| run.request_id == request && run.operator == operator);
        found.cloned()
    }

    /// Returns the runs that are under way, the oldest first.
    pub(super) fn under_way(&self) -> Vec<Arc<RunState>> {
        let runs = self.lock();
        runs.iter()
            .filter(|run| run.is_under_way())
            .cloned()
            .collect()
    }

    /// Removes a run.
    pub(super) fn remove(&self, request: RequestId) {
        self.lock().retain(|run| run.request_id != request);
    }

    /// Removes the oldest runs that have ended, while they are too many or too large.
    pub(super) fn trim(&self) {
        let mut runs = self.lock();
        let ends: Vec<usize> = runs
            .iter()
            .filter_map(|run| run.end().map(|end| end.len()))
            .collect();
        let (mut count, mut bytes) = (ends.len(), ends.iter().sum::<usize>());
        runs.retain(|run| {
            // The last one stays, however large it is.
            let is_too_much = count > ENDED_MOST || (bytes > ENDED_BYTES && count > 1);
            match run.end() {
                Some(end) if is_too_much => {
                    count -= 1;
                    bytes -= end.len();
                    false
                }
                _ => true,
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<RunState>>> {
        // Every change under this lock is complete in one step, so a poisoned lock is still valid.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
