//! Time as an endpoint lived it.
//!
//! A process that is stopped for a while (a debugger, a machine that is starved or moved) finds all
//! its timers overdue when it goes on, before it has read a single packet of those that lie there.
//! QUIC would take every peer for dead. So time in which nobody ran is not counted.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use quinn::AsyncTimer;
use saline_protocol::transport::{Clock, Limits};

use crate::lock;

/// A clock that stands still while nobody runs.
#[derive(Debug)]
pub(crate) struct Patience {
    clock: Clock,
    origin: Instant,
    /// How often somebody is expected to run, and how late he may be, in nanoseconds.
    every: u64,
    slack: u64,
    /// When somebody is expected next, in nanoseconds since the origin. Written under `slow`.
    expected: AtomicU64,
    /// The nanoseconds that are not counted. Written under `slow`, before `expected`.
    missed: AtomicU64,
    slow: Mutex<()>,
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

impl Patience {
    /// For pings as the limits say: what goes unseen is a small part of their interval.
    pub(crate) fn new(clock: Clock, limits: &Limits) -> Arc<Self> {
        let every = nanoseconds(limits.ping_interval / 4).clamp(1_000_000, u64::MAX / 4);
        Arc::new(Self {
            clock,
            origin: clock.now().into_std(),
            every,
            slack: every / 2,
            expected: AtomicU64::new(every),
            missed: AtomicU64::new(0),
            slow: Mutex::new(()),
        })
    }

    /// Runs as often as is expected, for ever.
    pub(crate) async fn keep(self: Arc<Self>) {
        loop {
            self.clock.pause(Duration::from_nanos(self.every)).await;
            self.count();
        }
    }

    fn since_origin(&self) -> u64 {
        nanoseconds(self.clock.now().into_std() - self.origin)
    }

    /// Until when nothing counts as missed.
    fn latest(&self) -> u64 {
        let expected = self.expected.load(Ordering::Acquire);
        expected.saturating_add(self.slack)
    }

    /// The time, without what was missed. It never goes back.
    pub(crate) fn now(&self) -> Instant {
        let missed = self.missed.load(Ordering::Acquire);
        let real = self.since_origin();
        let in_time = real <= self.latest() && missed == self.missed.load(Ordering::Acquire);
        let lived = if in_time { real - missed } else { self.count() };
        self.origin + Duration::from_nanos(lived)
    }

    /// Takes note that somebody runs, and of what was missed before. Returns the time.
    fn count(&self) -> u64 {
        let _slow = lock(&self.slow);
        let real = self.since_origin();
        let late = real.saturating_sub(self.latest());
        let missed = self.missed.fetch_add(late, Ordering::AcqRel) + late;
        self.expected.store(real + self.every, Ordering::Release);
        real - missed
    }

    /// When it is `at` on every other clock, unless more is missed until then.
    fn elsewhere(&self, at: Instant) -> Instant {
        at + Duration::from_nanos(self.missed.load(Ordering::Acquire))
    }
}

/// A timer of that clock. When something was missed it goes off early; whoever set it looks at the
/// clock and sets it again.
pub(crate) struct PatientTimer {
    timer: Pin<Box<dyn AsyncTimer>>,
    patience: Arc<Patience>,
}

impl PatientTimer {
    /// One that goes off at `at`, made by `new` for the time elsewhere.
    pub(crate) fn new(
        patience: &Arc<Patience>,
        at: Instant,
        new: impl FnOnce(Instant) -> Pin<Box<dyn AsyncTimer>>,
    ) -> Self {
        Self {
            timer: new(patience.elsewhere(at)),
            patience: Arc::clone(patience),
        }
    }
}

impl AsyncTimer for PatientTimer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        let at = self.patience.elsewhere(at);
        self.timer.as_mut().reset(at);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.as_mut().poll(cx)
    }
}

impl fmt::Debug for PatientTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PatientTimer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience() -> Arc<Patience> {
        Patience::new(Clock, &Limits::default())
    }

    #[tokio::test(start_paused = true)]
    async fn while_somebody_runs_all_time_is_counted() {
        let patience = patience();
        let keeper = Arc::clone(&patience).keep();
        let minute = Duration::from_secs(60);
        let began = patience.now();
        let _ = Clock.deadline(Clock.after(minute), keeper).await;
        assert!(patience.now() - began >= minute);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_is_not_counted_and_time_goes_on_after_it() {
        let patience = patience();
        let ping = Limits::default().ping_interval;
        let began = patience.now();
        tokio::time::advance(ping * 100).await;
        let lived = patience.now() - began;
        assert!(lived < ping / 2, "{lived:?} were counted");
        assert_eq!(patience.now() - began, lived);
        tokio::time::advance(ping / 8).await;
        assert_eq!(patience.now() - began, lived + ping / 8);
        let late = patience.elsewhere(patience.now());
        assert_eq!(late, Clock.now().into_std());
    }
}
