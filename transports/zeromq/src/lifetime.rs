//! The tasks of a client or a server, and how they end.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use saline_protocol::transport::{Context, Error, ErrorKind, Instant, Result};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long after the deadline tasks may still take to notice it.
const GRACE: Duration = Duration::from_secs(1);

/// Tasks that end together.
#[derive(Debug)]
pub(crate) struct Lifetime {
    /// Asks the tasks to end gracefully.
    pub(crate) stop: CancellationToken,
    /// Ends them where they stand.
    pub(crate) cut: CancellationToken,
    /// When a graceful end must be done, and whether it was.
    pub(crate) ending: Arc<Ending>,
    context: Context,
    spawned: Mutex<Vec<JoinHandle<()>>>,
    /// Locked by whoever joins, so that a second shutdown waits for the first.
    joining: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
}

/// How a graceful end goes.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    deadline: OnceLock<Instant>,
    cut_short: AtomicBool,
}

impl Ending {
    /// How much time there is left at `now`.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.deadline.get().map_or(Duration::ZERO, |deadline| {
            deadline.saturating_duration_since(now)
        })
    }

    /// When it must be done.
    pub(crate) fn deadline(&self, now: Instant) -> Instant {
        self.deadline.get().copied().unwrap_or(now)
    }

    /// Something was not done when the deadline came.
    pub(crate) fn cut_short(&self) {
        self.cut_short.store(true, Ordering::Relaxed);
    }
}

impl Lifetime {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            stop: CancellationToken::new(),
            cut: CancellationToken::new(),
            ending: Arc::default(),
            context: context.clone(),
            spawned: Mutex::default(),
            joining: tokio::sync::Mutex::default(),
        }
    }

    /// Spawns a task on the context that also ends with this lifetime.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let cut = self.cut.clone();
        let handle = self.context.spawn(async move {
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = task => {}
            }
        });
        let mut spawned = self.spawned.lock().unwrap_or_else(PoisonError::into_inner);
        spawned.retain(|handle| !handle.is_finished());
        spawned.push(handle);
    }

    /// Asks all tasks to end, waits for them until `deadline`, and then cuts them.
    pub(crate) async fn shutdown(&self, deadline: Duration) -> Result<()> {
        let clock = self.context.clock;
        let deadline = *self.ending.deadline.get_or_init(|| clock.after(deadline));
        self.stop.cancel();
        if clock.deadline(deadline + GRACE, self.join()).await.is_err() {
            self.ending.cut_short();
            self.cut.cancel();
            self.join().await;
        }
        if self.ending.cut_short.load(Ordering::Relaxed) {
            return Err(Error::new(
                ErrorKind::TimedOut,
                "the shutdown had to cut something at its deadline",
            ));
        }
        Ok(())
    }

    async fn join(&self) {
        let mut joining = self.joining.lock().await;
        loop {
            joining.append(&mut self.spawned.lock().unwrap_or_else(PoisonError::into_inner));
            let Some(last) = joining.last_mut() else {
                return;
            };
            // A task that panicked has ended too.
            let _ = last.await;
            joining.pop();
        }
    }
}
