//! How long a client waits for a server of NATS to let it in, and for the answer to its greeting.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The longest time that an attempt to connect may take.
const MAX_ATTEMPT: Duration = Duration::from_secs(60);

/// After so many attempts without an answer none takes longer.
const MOST_DOUBLINGS: u32 = 8;

/// How long attempts to connect may take. Each one that no server of NATS lets in, or whose greeting nobody answers, is followed
/// by one of twice the time, and each connection by one of half the time.
///
/// When thousands ask at once, links that are given up for the next ones cost more than the connections that are made, and
/// keep their turns from coming. Nothing is lost by waiting: NATS says at once when nobody serves.
///
/// All clients of a transport share it, since those of one process wait for the same turns.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    doublings: AtomicU32,
}

impl Patience {
    /// Returns how long an attempt may take, where the first one may take `first`.
    pub(crate) fn attempt(&self, first: Duration) -> Duration {
        let doublings = self.doublings.load(Ordering::Relaxed);
        let doubled = first.saturating_mul(1 << doublings);
        doubled.min(MAX_ATTEMPT.max(first))
    }

    /// Returns how long the greeting of an attempt may stay unanswered. It ends before the attempt does, which then says so.
    pub(crate) fn greeting(&self, first: Duration) -> Duration {
        self.attempt(first) * 4 / 5
    }

    /// Notes that no server of NATS has let a client in, or that nobody has answered it.
    pub(crate) fn grow(&self) {
        self.change(|doublings| (doublings + 1).min(MOST_DOUBLINGS));
    }

    /// Notes that a connection was made.
    pub(crate) fn shrink(&self) {
        self.change(|doublings| doublings.saturating_sub(1));
    }

    fn change(&self, to: impl Fn(u32) -> u32) {
        let doublings = &self.doublings;
        // Every value has a successor, so this does not fail.
        let _ = doublings.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| Some(to(now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_takes_twice_the_time_of_one_that_nobody_answered() {
        let patience = Patience::default();
        let first = Duration::from_secs(5);
        let seconds = || patience.attempt(first).as_secs();
        assert_eq!(seconds(), 5);
        for expected in [10, 20, 40, 60, 60, 60, 60, 60, 60] {
            patience.grow();
            assert_eq!(seconds(), expected);
        }
        for expected in [60, 60, 60, 60, 40, 20, 10, 5, 5] {
            patience.shrink();
            assert_eq!(seconds(), expected);
        }
        assert_eq!(patience.attempt(MAX_ATTEMPT * 2), MAX_ATTEMPT * 2);
    }

    #[test]
    fn a_greeting_is_given_up_before_its_attempt_ends() {
        let patience = Patience::default();
        assert_eq!(
            patience.greeting(Duration::from_secs(5)),
            Duration::from_secs(4)
        );
    }
}
