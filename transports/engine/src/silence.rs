//! How long a peer has said nothing.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;

use saline_protocol::transport::{Clock, Instant};

/// Judges the silence of a peer, for every backend that has to notice one which sends no FIN.
///
/// Time in which this process did not run (a machine that is overloaded, suspended or moved) says
/// nothing about the peer: after such a time what has arrived meanwhile is read first, and the peer
/// has a part of its time left. So a link is not cut because its own end was asleep.
///
/// The contract gives a dead peer two [`ping_interval`](saline_protocol::transport::Limits::ping_interval)s. Allow a little
/// less, so that what follows from it is done in time too; ping more often than once an interval, so
/// that a peer that lives is heard well before; and take every byte for a sign of life, not every
/// message, because a large one takes its time.
///
/// ```
/// # use std::time::Duration;
/// # use saline_engine::Silence;
/// # use saline_protocol::transport::Clock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let mut silence = Silence::new(Clock, Duration::from_millis(20));
/// tokio::select! {
///     // Whatever comes in: silence.heard();
///     () = std::future::pending::<()>() => {}
///     () = silence.over() => println!("the peer is gone"),
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Silence {
    clock: Clock,
    allowed: Duration,
    heard: Instant,
    /// When to look next: not at every sign of life, which are many.
    look: Pin<Box<Sleep>>,
}

impl Silence {
    /// A peer that was heard just now, and may be silent for `allowed`. Has to be called inside a Tokio
    /// runtime.
    #[allow(
        clippy::disallowed_methods,
        reason = "one timer that is set again, where Clock would make a new one at every await"
    )]
    pub fn new(clock: Clock, allowed: Duration) -> Self {
        let heard = clock.now();
        Self {
            clock,
            allowed,
            heard,
            look: Box::pin(tokio::time::sleep_until(heard + allowed / 2)),
        }
    }

    /// The peer said something.
    pub fn heard(&mut self) {
        self.heard = self.clock.now();
    }

    /// Resolves when the peer has been silent for too long, and at once from then on.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn over(&mut self) {
        poll_fn(|cx| self.poll_over(cx)).await;
    }

    /// The same, for whoever polls by hand.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.look.as_mut().poll(cx));
            let now = self.clock.now();
            let late = now.saturating_duration_since(self.look.deadline());
            if late > self.allowed / 16 {
                self.heard = (self.heard + late).min(now);
            }
            let dead = self.heard + self.allowed;
            if now >= dead {
                return Poll::Ready(());
            }
            // Once at half of the time, and then in steps, so that an end which slept shows.
            let half = self.heard + self.allowed / 2;
            let step = now + self.allowed / 8;
            self.look.as_mut().reset(half.max(step).min(dead));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Duration = Duration::from_secs(8);

    fn since(start: Instant) -> Duration {
        let late = Clock.now() - start;
        // The timers of the runtime are a millisecond wide.
        Duration::from_millis(late.as_millis() as u64 / 10 * 10)
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_over_when_nothing_was_heard_for_that_long() {
        let start = Clock.now();
        let mut silence = Silence::new(Clock, ALLOWED);
        silence.over().await;
        assert_eq!(since(start), ALLOWED);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sign_of_life_begins_it_anew() {
        let start = Clock.now();
        let mut silence = Silence::new(Clock, ALLOWED);
        for _ in 0..5 {
            let tick = Clock.after(Duration::from_secs(7));
            assert!(Clock.deadline(tick, silence.over()).await.is_err());
            silence.heard();
        }
        silence.over().await;
        assert_eq!(since(start), Duration::from_secs(5 * 7) + ALLOWED);
    }

    #[tokio::test(start_paused = true)]
    async fn time_that_was_slept_through_does_not_count() {
        let start = Clock.now();
        let mut silence = Silence::new(Clock, ALLOWED);
        let tick = Clock.after(Duration::from_secs(3));
        assert!(Clock.deadline(tick, silence.over()).await.is_err());
        // Nobody polls: the whole process sleeps.
        tokio::time::advance(Duration::from_secs(100)).await;
        let tick = Clock.after(Duration::from_secs(1));
        assert!(Clock.deadline(tick, silence.over()).await.is_err());
        silence.over().await;
        // A look was due at half of the time.
        let slept = Duration::from_secs(103 - 4);
        assert_eq!(since(start), ALLOWED + slept);
    }
}
