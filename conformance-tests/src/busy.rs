//! Whether the machine was too busy to judge a requirement.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use saline_protocol::transport::Clock;
use tokio_util::sync::CancellationToken;

use crate::{Failure, Outcome};

/// How long the watch rests each time.
const REST: Duration = Duration::from_millis(20);

/// How much later than asked a thread may run before times that were measured mean little.
const LATE: Duration = Duration::from_millis(200);

/// The time in which a thread that is busy may wait so long for a core.
const WINDOW: Duration = Duration::from_millis(400);

/// What a failure says that counts for nothing.
const TOO_BUSY: &str = "the machine was too busy to judge";

/// Whether a failure says that the machine was too busy to judge.
pub(crate) fn was_too_busy(failure: &str) -> bool {
    failure.contains(TOO_BUSY)
}

/// The longest times that a watch has seen, in milliseconds.
#[derive(Debug, Default)]
struct Seen {
    /// The longest time by which the watch's own thread ran late.
    late: AtomicU64,
    /// The longest time for which a thread of this process waited for a core within a window; zero where the system does not tell.
    waited: AtomicU64,
}

/// Watches how late a thread of its own runs, and how long the others wait for a core, whatever the backend does meanwhile.
#[derive(Debug)]
pub(crate) struct BusyWatch {
    seen: Arc<Seen>,
    end: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl BusyWatch {
    /// Begins to watch. Where there is no thread for it, nothing is ever too busy.
    pub fn start() -> Self {
        let (seen, end) = (Arc::new(Seen::default()), CancellationToken::new());
        let (kept, ended) = (Arc::clone(&seen), end.clone());
        let watching = move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            if let Ok(runtime) = { runtime }.enable_time().build() {
                runtime.block_on(watch(&kept, &ended));
            }
        };
        let thread = thread::Builder::new().name("busy-watch".into());
        Self {
            seen,
            end,
            thread: thread.spawn(watching).ok(),
        }
    }

    /// Adds to a failure that the machine was too busy to judge, if it was.
    pub fn judge(&self, outcome: Outcome) -> Outcome {
        let most = |seen: &AtomicU64| Duration::from_millis(seen.load(Ordering::Relaxed));
        let (late, waited) = (most(&self.seen.late), most(&self.seen.waited));
        let why = if late > LATE {
            format!("a thread that was to run ran {late:?} late")
        } else if waited > LATE {
            format!("a thread of this process waited {waited:?} of {WINDOW:?} for a core")
        } else {
            return outcome;
        };
        outcome.map_err(|failure| {
            Failure::new(format!(
                "{failure}\n  {TOO_BUSY}: {why}; run it again alone"
            ))
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

async fn watch(seen: &Seen, end: &CancellationToken) {
    let (mut waits, mut looked) = (waits(), Clock.now());
    loop {
        let due = Clock.after(REST);
        tokio::select! {
            () = end.cancelled() => return,
            () = Clock.until(due) => {}
        }
        let now = Clock.now();
        note(&seen.late, now.saturating_duration_since(due));
        if now.saturating_duration_since(looked) >= WINDOW {
            let before = std::mem::replace(&mut waits, self::waits());
            looked = now;
            let longest = waits.iter().map(|(thread, waited)| {
                let earlier = before.get(thread).copied().unwrap_or_default();
                waited.saturating_sub(earlier)
            });
            note(&seen.waited, longest.max().unwrap_or_default());
        }
    }
}

fn note(most: &AtomicU64, time: Duration) {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    most.fetch_max(millis, Ordering::Relaxed);
}

/// Returns how long each thread of this process has waited for a core so far; none where the system does not tell.
fn waits() -> HashMap<OsString, Duration> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let waited = threads.filter_map(|thread| {
        let thread = thread.ok()?;
        // The time that it ran, and the time that it waited to run, in nanoseconds.
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let nanos = text.split_whitespace().nth(1)?.parse().ok()?;
        Some((thread.file_name(), Duration::from_nanos(nanos)))
    });
    waited.collect()
}
