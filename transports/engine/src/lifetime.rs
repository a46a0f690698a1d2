//! The tasks of one end, and how they end.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{self, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use saline_protocol::transport::{Context, Error, ErrorKind, Instant, Result};

/// The tasks of one server or one client, which end together. For every backend: what
/// [`ServerControl::shutdown`](saline_protocol::transport::ServerControl::shutdown) and
/// [`Client::shutdown`](saline_protocol::transport::Client::shutdown) promise of tasks is kept here, once.
///
/// A task that is asked to [`stop`](Self::stop) finishes what it owes, until
/// [`deadline`](Self::deadline); what is left then is [`cut`](Self::cut). One that panics has ended.
/// For an end whose handles were all dropped, keep a
/// [`drop_guard`](CancellationToken::drop_guard) of `cut` in each handle.
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use saline_engine::Lifetime;
/// # use saline_protocol::transport::Context;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let lifetime = Lifetime::new(Context::default(), Duration::ZERO);
/// let stop = lifetime.stop.clone();
/// lifetime.spawn(async move { stop.cancelled().await });
/// assert!(lifetime.shutdown(Duration::from_secs(1)).await.is_ok());
/// assert!(lifetime.context.tracker.is_empty());
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Lifetime {
    /// The context that the tasks use.
    pub context: Context,
    /// Asks the tasks to end gracefully.
    pub stop: CancellationToken,
    /// Ends them where they stand.
    pub cut: CancellationToken,
    grace: Duration,
    deadline: OnceLock<Instant>,
    cut_short: AtomicBool,
    tasks: Mutex<Tasks>,
    /// Locked by whoever joins, so that a second shutdown waits for the first.
    joining: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Tasks {
    handles: Vec<JoinHandle<()>>,
    /// At this number those that have ended are swept out.
    sweep: usize,
}

impl Lifetime {
    /// Without tasks. Those that look at the deadline themselves, to say what they had to cut, have
    /// `grace` more to do so; zero where none does.
    pub fn new(context: Context, grace: Duration) -> Arc<Self> {
        Arc::new(Self {
            stop: CancellationToken::new(),
            cut: context.cancel.child_token(),
            context,
            grace,
            deadline: OnceLock::new(),
            cut_short: AtomicBool::new(false),
            tasks: Mutex::default(),
            joining: tokio::sync::Mutex::default(),
        })
    }

    /// Spawns a task on the context that also ends with this lifetime: dropped at its next await when
    /// the context is cancelled or [`cut`](Self::cut) is, and at once when that was done before. It does
    /// nothing any more then, whatever else has woken it. A task that is spawned while a shutdown waits is waited for as well, so look at [`stop`](Self::stop)
    /// before.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if self.cut.is_cancelled() {
            return;
        }
        // One wrapper that pins the task where it is: every `async` block around it would double it.
        let task = UntilCut {
            cut: self.cut.clone().cancelled_owned(),
            task,
        };
        let handle = self.context.tracker.spawn(task);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.handles.len() >= tasks.sweep {
            tasks.handles.retain(|handle| !handle.is_finished());
            tasks.sweep = 64.max(tasks.handles.len() * 2);
        }
        tasks.handles.push(handle);
    }

    /// When a shutdown that has begun must be done; now, when none has begun.
    pub fn deadline(&self) -> Instant {
        let now = || self.context.clock.now();
        self.deadline.get().copied().unwrap_or_else(now)
    }

    /// How much time there is until [`deadline`](Self::deadline).
    pub fn left(&self) -> Duration {
        let now = self.context.clock.now();
        self.deadline().saturating_duration_since(now)
    }

    /// Takes note that something was not done when the deadline came: the shutdown will say `TimedOut`.
    pub fn cut_short(&self) {
        self.cut_short.store(true, Ordering::Relaxed);
    }

    /// Asks all tasks to end, waits for them until `deadline` (counted from now) has passed, and then
    /// cuts them. A second call waits for the first; its deadline counts for nothing.
    ///
    /// # Errors
    /// `TimedOut` when something had to be cut. Every task has ended all the same.
    ///
    /// # Cancel safety
    /// The tasks end all the same when the future is dropped; call again to wait for them. One that
    /// does not end by itself is cut by whoever waits when the deadline has passed.
    pub async fn shutdown(&self, deadline: Duration) -> Result<()> {
        let clock = self.context.clock;
        let deadline = *self.deadline.get_or_init(|| clock.after(deadline));
        self.stop.cancel();
        let joined = clock.deadline(deadline + self.grace, self.join()).await;
        if joined.is_err() {
            self.cut_short();
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
            {
                let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
                joining.append(&mut tasks.handles);
            }
            let Some(last) = joining.last_mut() else {
                return;
            };
            // A task that panicked has ended too.
            let _ = last.await;
            joining.pop();
        }
    }
}

pin_project! {
    /// A task until it is cut. It looks first whether it is: the ends of other tasks, which are cut together
    /// with it, are no news to it.
    struct UntilCut<F> {
        #[pin]
        cut: WaitForCancellationFutureOwned,
        #[pin]
        task: F,
    }
}

impl<F: Future<Output = ()>> Future for UntilCut<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<()> {
        let this = self.project();
        match this.cut.poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => this.task.poll(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_protocol::transport::Clock;

    const SECOND: Duration = Duration::from_secs(1);

    /// A task that owes something for so long after it was asked to stop.
    fn owing(lifetime: &Arc<Lifetime>, owed: Duration) {
        let stop = lifetime.stop.clone();
        lifetime.spawn(async move {
            stop.cancelled().await;
            Clock.pause(owed).await;
        });
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_owed_is_waited_for() {
        let lifetime = Lifetime::new(Context::default(), Duration::ZERO);
        owing(&lifetime, SECOND);
        let begin = Clock.now();
        lifetime.shutdown(5 * SECOND).await.unwrap();
        assert_eq!((Clock.now() - begin).as_secs(), 1);
        assert!(lifetime.context.tracker.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_deadline_it_is_cut_and_said() {
        let lifetime = Lifetime::new(Context::default(), SECOND);
        owing(&lifetime, 100 * SECOND);
        let begin = Clock.now();
        let cut = lifetime.shutdown(5 * SECOND).await;
        assert_eq!(cut.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!((Clock.now() - begin).as_secs(), 6);
        assert!(lifetime.context.tracker.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_call_waits_for_the_first_also_when_that_was_dropped() {
        let lifetime = Lifetime::new(Context::default(), Duration::ZERO);
        owing(&lifetime, 3 * SECOND);
        let begin = Clock.now();
        let first = Clock.deadline(Clock.after(SECOND), lifetime.shutdown(5 * SECOND));
        assert!(first.await.is_err());
        lifetime.shutdown(Duration::ZERO).await.unwrap();
        assert_eq!((Clock.now() - begin).as_secs(), 3);
    }

    #[tokio::test]
    async fn a_task_that_is_cut_does_not_act_on_what_has_woken_it_as_well() {
        let context = Context::default();
        let lifetime = Lifetime::new(context.clone(), Duration::ZERO);
        let news = CancellationToken::new();
        let has_acted = Arc::new(AtomicBool::new(false));
        let (heard, acted) = (news.clone(), Arc::clone(&has_acted));
        lifetime.spawn(async move {
            heard.cancelled().await;
            acted.store(true, Ordering::Relaxed);
        });
        // It waits, and then both happen before it is polled again.
        tokio::task::yield_now().await;
        context.cancel.cancel();
        news.cancel();
        lifetime.join().await;
        assert!(!has_acted.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_have_ended_are_not_kept() {
        let lifetime = Lifetime::new(Context::default(), Duration::ZERO);
        for _ in 0..1000 {
            lifetime.spawn(async {});
            tokio::task::yield_now().await;
        }
        assert!(lifetime.tasks.lock().unwrap().handles.len() <= 64);
    }
}
