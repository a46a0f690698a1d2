//! What a backend is given, so that it makes none of it itself.

use std::future::Future;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Backoff, Clock, Counters, Limits, Metric, MetricsSink, Tls};

/// Handed to every [`Transport::serve`](super::Transport::serve) and
/// [`Transport::connect`](super::Transport::connect). A backend takes its tasks, clock, bounds,
/// backoff and counters from here: it never calls `tokio::spawn`, reads a clock or has a number of
/// its own.
///
/// A clone shares everything. [`child`](Self::child) makes a part that can be ended alone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Context {
    /// Owns every task of the backend; empty after a shutdown, which is tested.
    pub tracker: TaskTracker,
    /// Ends every task of the backend when cancelled. A graceful end is the `shutdown` of the roles.
    pub cancel: CancellationToken,
    /// Bounds and time-outs.
    pub limits: Limits,
    /// Reads and awaits time.
    pub clock: Clock,
    /// A fresh copy of this paces each reconnection.
    pub backoff: Backoff,
    /// Where the backend counts.
    pub metrics: Arc<dyn MetricsSink>,
    /// What to encrypt network links with, when that was asked for. A backend that is not
    /// [`encrypted`](super::Capabilities::encrypted) is refused then; local endpoints have no use
    /// for it.
    pub tls: Option<Tls>,
}

impl Context {
    /// A context with these limits, a tracker of its own, and counters that nobody reads.
    pub fn new(limits: Limits) -> Self {
        Self {
            tracker: TaskTracker::new(),
            cancel: CancellationToken::new(),
            limits,
            clock: Clock,
            backoff: Backoff::default(),
            metrics: Counters::new(),
            tls: None,
        }
    }

    /// The same, counting into `metrics`.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Arc<dyn MetricsSink>) -> Self {
        self.metrics = metrics;
        self
    }

    /// The same, waiting between attempts as `backoff` says.
    #[must_use]
    pub fn with_backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// The same, encrypting as `tls` says.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<Tls>) -> Self {
        self.tls = tls;
        self
    }

    /// A part with a tracker and a token of its own: cancelling this one cancels the child, not the
    /// other way round.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            tracker: TaskTracker::new(),
            cancel: self.cancel.child_token(),
            ..self.clone()
        }
    }

    /// Spawns a task that the tracker owns. It is dropped at its next await point when
    /// [`cancel`](Self::cancel) is cancelled.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let cancel = self.cancel.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = task => {}
            }
        })
    }

    /// Runs something that blocks (a name look-up, closing a libzmq socket) on a thread that the
    /// tracker owns. It cannot be cancelled, so it must end by itself.
    pub fn spawn_blocking<T, F>(&self, work: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.tracker.spawn_blocking(work)
    }

    /// Counts one.
    pub fn count(&self, metric: Metric) {
        self.metrics.add(metric, 1);
    }
}

impl Default for Context {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}
