//! One timer that is set again and again.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use saline_protocol::transport::{Clock, Instant};
use tokio::time::Sleep;

use crate::pipe::{ReadPipe, SignsOfLife};
use crate::state::{IdleTimer, Ticks};

/// A timer of one task, which would otherwise make a new one at every await.
#[derive(Debug)]
pub(crate) struct Alarm(Pin<Box<Sleep>>);

impl Alarm {
    /// Returns an alarm that goes off at `at`. Has to be called inside a Tokio runtime.
    #[allow(
        clippy::disallowed_methods,
        reason = "one timer that is set again, where Clock would make a new one at every await"
    )]
    pub(crate) fn new(at: Instant) -> Self {
        Self(Box::pin(tokio::time::sleep_until(at)))
    }

    /// Sets it to another time.
    pub(crate) fn set(&mut self, at: Instant) {
        self.0.as_mut().reset(at);
    }

    /// Resolves when it has gone off, and at once from then on until it is set.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }

    /// Resolves when it has gone off, and at once from then on until it is set.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn rings(&mut self) {
        std::future::poll_fn(|cx| self.poll(cx)).await;
    }
}

/// Drives an [`IdleTimer`].
pub(crate) struct IdleWatch {
    clock: Clock,
    timer: IdleTimer,
    alarm: Alarm,
    ticks: Option<Ticks>,
    /// Looked at when the alarm rings, and what it showed then.
    signs: Option<SignsOfLife>,
    seen: u64,
}

impl IdleWatch {
    /// Watches the peer of `pipe`, which was heard just now, and looks at it at `ticks`, if there are any.
    pub(crate) fn new(
        clock: Clock,
        dead_after: Duration,
        pipe: &impl ReadPipe,
        ticks: Option<Ticks>,
    ) -> Self {
        let timer = IdleTimer::new(clock.now(), dead_after);
        Self {
            clock,
            alarm: Alarm::new(timer.deadline()),
            timer,
            ticks,
            signs: pipe.signs_of_life(),
            seen: 0,
        }
    }

    /// Takes note that the peer said something.
    pub(crate) fn heard(&mut self) {
        self.timer.heard(self.clock.now());
    }

    /// Does what [`dead`](Self::dead) does while nothing is read from the pipe. Where the pipe alone tells signs of life, by
    /// its bytes, the silence says nothing then, and this never resolves.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn dead_unread(&mut self) {
        match self.signs {
            Some(_) => self.dead().await,
            None => std::future::pending().await,
        }
    }

    /// Resolves when the peer has been silent for too long, and at once from then on.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn dead(&mut self) {
        std::future::poll_fn(|cx| {
            loop {
                ready!(self.alarm.poll(cx));
                let now = self.clock.now();
                if let Some(signs) = &self.signs {
                    let seen = signs();
                    if std::mem::replace(&mut self.seen, seen) != seen {
                        self.timer.heard(now);
                    }
                }
                if self.timer.is_dead(now) {
                    return Poll::Ready(());
                }
                let deadline = self.timer.deadline();
                let at = self.ticks.map(|ticks| ticks.before(deadline, now));
                self.alarm.set(at.unwrap_or(deadline));
            }
        })
        .await;
    }
}
