//! The log of peers that were refused: one line each, and no flood of them.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use saline_protocol::transport::{Clock, Instant};

/// Time between two lines. A stranger can come as often as it likes.
const PAUSE: Duration = Duration::from_secs(1);

/// Logs refused peers, so that an operator learns why somebody does not get in.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    last: Option<Instant>,
    /// RefusalLog since that got no line.
    untold: u64,
}

impl RefusalLog {
    /// Logs that `peer` was refused and why: as a warning, unless there was one a moment ago.
    pub(super) fn tell(&self, clock: Clock, peer: &dyn fmt::Display, why: &str) {
        match self.turn(clock.now()) {
            Some(0) => tracing::warn!("refused {peer}: {why}"),
            Some(untold) => tracing::warn!("refused {peer}: {why} ({untold} more before)"),
            None => tracing::debug!("refused {peer}: {why}"),
        }
    }

    /// Whether a line is due, and how many had none since the last.
    pub(super) fn turn(&self, now: Instant) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.last.is_some_and(|last| now < last + PAUSE) {
            told.untold += 1;
            return None;
        }
        told.last = Some(now);
        Some(std::mem::take(&mut told.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_pause_and_the_others_are_counted() {
        let (refusals, now) = (RefusalLog::default(), Clock.now());
        assert_eq!(refusals.turn(now), Some(0));
        assert_eq!(refusals.turn(now + PAUSE / 2), None);
        assert_eq!(refusals.turn(now + PAUSE / 2), None);
        assert_eq!(refusals.turn(now + PAUSE), Some(2));
        assert_eq!(refusals.turn(now + PAUSE * 2), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_told_has_its_line() {
        let refusals = RefusalLog::default();
        refusals.tell(Clock, &"somebody", "no reason");
        assert_eq!(refusals.turn(Clock.now()), None);
    }
}
