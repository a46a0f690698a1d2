//! The context of a backend: clock, limits, metrics, tasks and certificates, which it does not make itself.

use std::future::Future;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Backoff, Clock, Counters, Limits, Metric, MetricsSink, Tls};

/// Handed to every [`Transport::serve`](super::Transport::serve) and
/// [`Transport::connect`](super::Transport::connect).
///
/// # Contract
/// - A backend takes its tasks, clock, bounds, backoff and counters from here: it never calls
///   `tokio::spawn`, reads a clock or has a number of its own.
/// - All of its tasks are on the tracker that it was given. After the `shutdown` of a server or a
///   client has returned, that holds nothing of it (`SHU-003`). To close the tracker and to wait for it
///   is for whoever handed it in.
/// - When the token is cancelled, every task ends at its next await, and whoever waits is told:
///   requests and publications by an error, streams by `None` (`SHU-011`). Nothing that must happen
///   may stand behind an await; it belongs in a guard that the task owns.
///
/// A clone shares everything, tracker and token too. [`child`](Self::child) makes a part that can be
/// ended and waited for alone: give one to each server and each client.
///
/// ```
/// use saline_protocol::transport::{Context, Limits};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let daemon = Context::new(Limits::default());
/// let link = daemon.child();
/// link.spawn(std::future::pending());
/// assert_eq!((daemon.tracker.len(), link.tracker.len()), (0, 1));
///
/// daemon.cancel.cancel();
/// link.tracker.close();
/// link.tracker.wait().await;
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Context {
    /// Owns every task of the backend.
    pub tracker: TaskTracker,
    /// Ends every task of the backend when cancelled. A graceful end is the `shutdown` of the roles.
    pub cancel: CancellationToken,
    /// Bounds and time-outs.
    pub limits: Limits,
    /// Reads and awaits time.
    pub clock: Clock,
    /// Paces attempts that failed. A fresh copy is taken whenever a link is lost, so that the first
    /// wait is short again; a socket that connects and does not become a link resets nothing (`CON-036`).
    pub backoff: Backoff,
    /// Counts what the backend alone sees: see [`Metric`].
    pub metrics: Arc<dyn MetricsSink>,
    /// What to encrypt network links with, when that was asked for. A backend that is not
    /// [`encrypted`](super::Capabilities::encrypted) is refused then; local endpoints have no use
    /// for it.
    pub tls: Option<Tls>,
    /// Which users of this machine a server lets in at a local endpoint. A backend without
    /// [`local_users`](super::Capabilities::local_users) is refused when that is not its own alone.
    pub local_access: LocalAccess,
}

/// Which users of this machine a server lets in at a local endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LocalAccess {
    /// The user that the server runs as, and root.
    #[default]
    OwnUser,
    /// Every user who may enter the folder (`BUS-008`). [`Peer::source`](super::Peer::source) tells who each one is.
    EveryUser,
}

impl Context {
    /// A context with these limits, a tracker and a token of its own, the default backoff, no TLS, and
    /// counters that nobody reads.
    pub fn new(limits: Limits) -> Self {
        Self {
            tracker: TaskTracker::new(),
            cancel: CancellationToken::new(),
            limits,
            clock: Clock,
            backoff: Backoff::default(),
            metrics: Counters::new(),
            tls: None,
            local_access: LocalAccess::OwnUser,
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

    /// The same, letting these users of this machine in at local endpoints.
    #[must_use]
    pub fn with_local_access(mut self, access: LocalAccess) -> Self {
        self.local_access = access;
        self
    }

    /// A part with a tracker and a token of its own: cancelling this one cancels the child, not the
    /// other way round. For whoever hands contexts out: a backend's tasks belong on the tracker that it
    /// was given, so one that wants to end a part alone takes a
    /// [`child_token`](CancellationToken::child_token) of [`cancel`](Self::cancel).
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            tracker: TaskTracker::new(),
            cancel: self.cancel.child_token(),
            ..self.clone()
        }
    }

    /// Spawns a task that the tracker owns. It is dropped at its next await point when
    /// [`cancel`](Self::cancel) is cancelled. Has to be called inside a Tokio runtime, as everything
    /// that spawns.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let cancel = self.cancel.clone();
        // Boxed, so that it is not moved and held once more by each future around it.
        let task = Box::pin(task);
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = task => {}
            }
        })
    }

    /// Runs something that blocks (a name look-up, closing a libzmq socket) on a thread that the
    /// tracker owns. It cannot be cancelled, so it must end by itself, and soon: a shutdown waits for
    /// it.
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
