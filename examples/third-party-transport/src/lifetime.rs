//! The tasks of a client or a server, and how they end.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use saline_protocol::transport::{Context, Error, ErrorKind, Instant, Result};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::lock;

/// How many tasks there may be before those that have ended are swept out.
const SWEEP: usize = 64;

/// Tasks that end together.
#[derive(Debug)]
pub(crate) struct Lifetime {
    /// What the tasks are made of.
    pub(crate) context: Context,
    /// Asks the tasks to end gracefully.
    pub(crate) stop: CancellationToken,
    /// Ends them where they stand.
    pub(crate) cut: CancellationToken,
    deadline: OnceLock<Instant>,
    cut_short: AtomicBool,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Locked by whoever joins, so that a second shutdown waits for the first.
    joining: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Lifetime {
    pub(crate) fn new(context: Context) -> Arc<Self> {
        Arc::new(Self {
            context,
            stop: CancellationToken::new(),
            cut: CancellationToken::new(),
            deadline: OnceLock::new(),
            cut_short: AtomicBool::new(false),
            tasks: Mutex::default(),
            joining: tokio::sync::Mutex::default(),
        })
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
        let mut tasks = lock(&self.tasks);
        if tasks.len() >= SWEEP && tasks.len() == tasks.capacity() {
            tasks.retain(|task| !task.is_finished());
        }
        tasks.push(handle);
    }

    /// Asks all tasks to end, waits for them until `deadline`, and then cuts them.
    ///
    /// # Cancel safety
    /// The tasks end all the same when the future is dropped; call again to wait for them.
    pub(crate) async fn shutdown(&self, deadline: Duration) -> Result<()> {
        let clock = self.context.clock;
        let deadline = *self.deadline.get_or_init(|| clock.after(deadline));
        self.stop.cancel();
        if clock.deadline(deadline, self.join()).await.is_err() {
            self.cut_short.store(true, Ordering::Relaxed);
            self.cut.cancel();
            self.join().await;
        }
        if self.cut_short.load(Ordering::Relaxed) {
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
            joining.append(&mut lock(&self.tasks));
            let Some(last) = joining.last_mut() else {
                return;
            };
            // A task that panicked has ended too.
            let _ = last.await;
            joining.pop();
        }
    }
}
