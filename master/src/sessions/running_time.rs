//! The time by which silence is judged: it stands still while the master does not run.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use saline_protocol::transport::{Clock, Instant};

/// The longest time without a tick that counts. A master that is not held up ticks every second.
const HELD_UP: Duration = Duration::from_secs(5);

/// How long the master must have stood still for everybody to get another heartbeat's time to speak.
const SUSPENDED: Duration = Duration::from_secs(30);

/// The time that the master has been running, in milliseconds.
#[derive(Debug)]
pub(super) struct RunningTime {
    clock: Clock,
    started: Instant,
    heartbeat: Duration,
    ticked: Mutex<Ticked>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Ticked {
    /// The time of the last tick since the start; none before the first.
    last: Option<Duration>,
    /// The time that does not count.
    lost: Duration,
}

impl RunningTime {
    pub(super) fn start(clock: Clock, heartbeat: Duration) -> Self {
        Self {
            clock,
            started: clock.now(),
            heartbeat,
            ticked: Mutex::default(),
        }
    }

    /// Returns the time.
    pub(super) fn now(&self) -> u64 {
        let now = self.clock.now() - self.started;
        let Ticked { last, lost } = *self.ticked.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = last.map_or(now, |last| now.min(last + HELD_UP));
        u64::try_from(counted.saturating_sub(lost).as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes that the master runs. Returns how long it stood still, if it did.
    pub(super) fn tick(&self) -> Option<Duration> {
        let now = self.clock.now() - self.started;
        let mut ticked = self.ticked.lock().unwrap_or_else(PoisonError::into_inner);
        let last = ticked.last.replace(now)?;
        let held_up = (now - last).checked_sub(HELD_UP)?;
        ticked.lost += held_up;
        if held_up < SUSPENDED {
            return None;
        }
        ticked.lost += self.heartbeat;
        Some(held_up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn time_without_ticks_does_not_count() {
        let time = RunningTime::start(Clock, 15 * SECOND);
        assert_eq!(time.tick(), None);
        Clock.pause(3 * SECOND).await;
        assert_eq!((time.now(), time.tick()), (3_000, None));
        Clock.pause(15 * SECOND).await;
        assert_eq!(time.now(), 8_000);
        assert_eq!((time.tick(), time.now()), (None, 8_000));
        Clock.pause(3_600 * SECOND).await;
        assert_eq!(time.now(), 13_000);
        assert_eq!(time.tick(), Some(3_595 * SECOND));
        // Everybody gets a heartbeat's time.
        assert_eq!(time.now(), 0);
        Clock.pause(16 * SECOND).await;
        assert_eq!(time.now(), 3_000, "until the next tick 5 s count");
    }
}
