//! Whether the machine was too busy to judge a requirement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use saline_protocol::transport::Clock;
use tokio_util::sync::CancellationToken;

use crate::kit::PING;
use crate::{Failure, Outcome};

/// How long the watch rests each time.
const REST: Duration = Duration::from_millis(20);

/// How much later than asked a thread may run before times that were measured mean little.
const LATE: Duration = PING;

/// Watches how late a thread of its own runs, whatever the backend does meanwhile.
#[derive(Debug)]
pub(crate) struct BusyWatch {
    /// The most, in milliseconds.
    latest: Arc<AtomicU64>,
    end: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl BusyWatch {
    /// Begins to watch. Where there is no thread for it, nothing is ever too busy.
    pub fn start() -> Self {
        let (latest, end) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let (kept, ended) = (Arc::clone(&latest), end.clone());
        let watching = move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            if let Ok(runtime) = { runtime }.enable_time().build() {
                runtime.block_on(watch(&kept, &ended));
            }
        };
        let thread = thread::Builder::new().name("busy-watch".into());
        Self {
            latest,
            end,
            thread: thread.spawn(watching).ok(),
        }
    }

    /// Adds to a failure that the machine was too busy to judge, if it was.
    pub fn judge(&self, outcome: Outcome) -> Outcome {
        let latest = Duration::from_millis(self.latest.load(Ordering::Relaxed));
        outcome.map_err(|failure| match latest > LATE {
            false => failure,
            true => Failure::new(format!(
                "{failure}\n  the machine was too busy to judge: a thread that was to run ran {latest:?} late; run it again alone"
            )),
        })
    }
}

impl Drop for BusyWatch {
    fn drop(&mut self) {
        self.end.cancel();
        if let Some(thread) = self.thread.take() {
            // It does nothing that could panic.
            let _ = thread.join();
        }
    }
}

async fn watch(latest: &AtomicU64, end: &CancellationToken) {
    loop {
        let due = Clock.after(REST);
        tokio::select! {
            () = end.cancelled() => return,
            () = Clock.until(due) => {}
        }
        let late = Clock.now().saturating_duration_since(due).as_millis();
        latest.fetch_max(u64::try_from(late).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
