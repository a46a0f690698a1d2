//! The runs that are under way or have just ended.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_messages::{Jid, Outgoing, PackedArguments, RequestId, RunKind};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::authorize::Principal;
use crate::events::RunReport;

/// The largest number of runs that are under way at once.
pub(super) const MAX_RUNNING: usize = 32;

/// The part of these that one operator or user other than root may have.
pub(super) const SHARE_OF_ONE: usize = 4;

/// How many more may be under way of functions that look at runs or end them.
pub(super) const MAX_ABOUT_RUNS: usize = 8;

/// The largest number of runs that have ended and can still be read.
pub(super) const MAX_ENDED: usize = 256;

/// The most that the ends of runs and their arguments may come to, in bytes: the oldest go first.
const MAX_ENDED_BYTES: usize = 256 * 1024 * 1024;

/// The largest number of runs that are remembered when they cannot be read any more.
const MAX_GONE: usize = 4_096;

/// How far a run has come.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// The run is being stored.
    Beginning,
    /// The run is under way.
    Running,
    /// The run has ended: the encoded [`RunnerEnd`](saline_messages::RunnerEnd).
    Ended(Outgoing),
    /// The run cannot be begun, for this reason.
    Failed(String),
    /// The master stops.
    Stopped,
}

/// One run.
#[derive(Debug)]
pub(crate) struct RunState {
    pub(crate) request_id: RequestId,
    pub(crate) jid: Jid,
    pub(crate) kind: RunKind,
    pub(crate) fun: String,
    pub(crate) arg: PackedArguments,
    pub(crate) user: String,
    /// Who began the run.
    pub(crate) principal: Principal,
    /// The name under which the store has the run: [`Principal::owner`].
    pub(crate) operator: String,
    pub(crate) phase: watch::Sender<Phase>,
    /// Cancelled when the run is to end before it is done.
    pub(crate) kill: CancellationToken,
    /// Whether the job store keeps the end of the run.
    pub(crate) is_kept: AtomicBool,
    /// Whether the end is for the one alone who began the run. Set before the run has ended.
    pub(crate) is_secret: AtomicBool,
    /// Whether the run fires the event of a hook. No events tell of such a run: they would have all that was posted once more each.
    pub(crate) is_hook: bool,
}

impl RunState {
    /// Returns the end of the run; none while it has not ended.
    pub(crate) fn end(&self) -> Option<Outgoing> {
        match &*self.phase.borrow() {
            Phase::Ended(end) => Some(end.clone()),
            _ => None,
        }
    }

    /// Waits until the run has ended, could not begin, or the master stops.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn ended(&self) {
        let mut phase = self.phase.subscribe();
        let is_over = |phase: &Phase| !matches!(phase, Phase::Beginning | Phase::Running);
        // The run has the sender, and lives as long as it is borrowed.
        let _ = phase.wait_for(is_over).await;
    }

    /// Returns what the events of the run say of it.
    pub(super) fn report(&self) -> RunReport<'_> {
        RunReport {
            jid: &self.jid,
            kind: self.kind,
            fun: &self.fun,
            arg: &self.arg,
            user: &self.user,
            owner: &self.operator,
        }
    }

    /// Returns the size in bytes of what is kept of the run when it has ended; none before.
    fn ended_size(&self) -> Option<usize> {
        self.end()
            .map(|end| end.bytes().len() + self.arg.as_packed().as_bytes().len())
    }

    /// Whether the run has begun and not ended.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Beginning | Phase::Running)
    }

    /// Whether the end of the run is for the one alone who began it.
    pub(super) fn is_secret(&self) -> bool {
        self.is_secret.load(Ordering::SeqCst)
    }

    /// Whether the job store keeps the end of the run.
    pub(super) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::SeqCst)
    }
}

/// Why a run was not added.
#[derive(Debug)]
pub(super) enum NotAdded {
    /// The run of the same request is here.
    Known(Arc<RunState>),
    /// The run of the same request has ended, and its end is not kept any more.
    Gone(Jid),
    /// Too many are under way.
    TooMany,
    /// Too many of the same operator or user are under way.
    TooManyOwn,
}

/// The runs of one master.
#[derive(Debug, Default)]
pub(crate) struct RunTable(Mutex<Runs>);

#[derive(Debug, Default)]
struct Runs {
    /// Those that are under way or can still be read, the oldest first.
    kept: VecDeque<Arc<RunState>>,
    /// Those that have ended and cannot be read any more, the oldest first: whoever asks for one again is not to begin
    /// it again.
    gone: VecDeque<(RequestId, Jid)>,
}

impl Runs {
    fn note_gone(&mut self, request: RequestId, jid: Jid) {
        if self.gone.len() >= MAX_GONE {
            self.gone.pop_front();
        }
        self.gone.push_back((request, jid));
    }
}

impl RunTable {
    /// Adds a run, unless `most` are under way or the same request began one before.
    ///
    /// # Errors
    /// See [`NotAdded`].
    pub(super) fn add(&self, run: &Arc<RunState>, most: usize) -> Result<(), NotAdded> {
        let mut runs = self.lock();
        let mut kept = runs.kept.iter();
        if let Some(before) = kept.find(|known| known.request_id == run.request_id) {
            return Err(NotAdded::Known(Arc::clone(before)));
        }
        if let Some((_, jid)) = runs.gone.iter().find(|(id, _)| *id == run.request_id) {
            return Err(NotAdded::Gone(jid.clone()));
        }
        let under_way = || runs.kept.iter().filter(|known| known.is_under_way());
        let own = under_way().filter(|known| known.operator == run.operator);
        if !run.principal.is_local_root() && own.count() >= most / SHARE_OF_ONE {
            return Err(NotAdded::TooManyOwn);
        }
        if under_way().count() >= most {
            return Err(NotAdded::TooMany);
        }
        runs.kept.push_back(Arc::clone(run));
        Ok(())
    }

    /// Returns the run that this request of the operator began.
    pub(super) fn find(&self, operator: &str, request: RequestId) -> Option<Arc<RunState>> {
        let runs = self.lock();
        let mut kept = runs.kept.iter();
        let found = kept.find(|run| run.request_id == request && run.operator == operator);
        found.cloned()
    }

    /// Returns the run with this jid, if it is under way or has just ended.
    pub(super) fn with_jid(&self, jid: &Jid) -> Option<Arc<RunState>> {
        let runs = self.lock();
        runs.kept.iter().find(|run| run.jid == *jid).cloned()
    }

    /// Returns the runs that are under way, the oldest first.
    pub(super) fn under_way(&self) -> Vec<Arc<RunState>> {
        let runs = self.lock();
        let under_way = runs.kept.iter().filter(|run| run.is_under_way());
        under_way.cloned().collect()
    }

    /// Removes a run that did not come to its end. The same request may start it again.
    pub(super) fn remove(&self, request: RequestId) {
        self.lock().kept.retain(|run| run.request_id != request);
    }

    /// Removes a run that has ended, if it is still here.
    pub(super) fn retire(&self, request: RequestId, jid: Jid) {
        let mut runs = self.lock();
        let before = runs.kept.len();
        runs.kept.retain(|kept| kept.request_id != request);
        if runs.kept.len() < before {
            runs.note_gone(request, jid);
        }
    }

    /// Removes the oldest runs that have ended, while they are too many or too large.
    pub(super) fn trim(&self) {
        let mut runs = self.lock();
        let kept = std::mem::take(&mut runs.kept);
        let ended: Vec<usize> = kept.iter().filter_map(|run| run.ended_size()).collect();
        let (mut count, mut bytes) = (ended.len(), ended.iter().sum::<usize>());
        for run in kept {
            // The last one stays, however large it is.
            let is_too_much = count > MAX_ENDED || (bytes > MAX_ENDED_BYTES && count > 1);
            match run.ended_size() {
                Some(size) if is_too_much => {
                    count -= 1;
                    bytes = bytes.saturating_sub(size);
                    runs.note_gone(run.request_id, run.jid.clone());
                }
                _ => runs.kept.push_back(run),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Runs> {
        // Every change under this lock is complete in one step, so a poisoned lock is still valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
