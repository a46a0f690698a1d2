//! The master's time: it never goes back, and does not follow jumps of the machine's clock.
//!
//! Offers expire, requests are forgotten and jobs are pruned by this time. If it jumped with the wall
//! clock, a step of a day would delete every job, or revive offers that minions were told have expired.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use rustix::time::{ClockId, clock_gettime};
use saline_messages::MasterTime;
use saline_protocol::transport::Clock;

/// How fast the time is drawn to the wall clock, as a divisor: a two-thousandth, as fast as NTP slews.
const SLEW: i64 = 2_000;

/// How long the time goes on from one look at the wall clock, in microseconds.
const WALL_CLOCK_INTERVAL: i64 = 1_000_000;

/// A jump of the wall clock that is noticed, in microseconds.
const JUMP: i64 = 2_000_000;

/// The master's clock. Clones share it.
#[derive(Debug, Clone)]
pub struct MasterClock {
    clock: Clock,
    timeline: Arc<Mutex<Timeline>>,
    /// How often the wall clock was seen to jump.
    jumps: Arc<AtomicU64>,
}

impl MasterClock {
    /// Starts the master's time at the wall clock.
    pub fn new(clock: Clock) -> Self {
        let timeline = Timeline::start(wall(clock), since_boot());
        Self {
            clock,
            timeline: Arc::new(Mutex::new(timeline)),
            jumps: Arc::default(),
        }
    }

    /// Goes on after `time`, which the master has reached in an earlier run. Returns by how many
    /// milliseconds the wall clock is behind it.
    pub fn rise_above(&self, time: MasterTime) -> MasterTime {
        let micros = i64::try_from(time)
            .unwrap_or(i64::MAX)
            .saturating_mul(1_000);
        let mut timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = micros.saturating_sub(timeline.time);
        timeline.time = timeline.time.max(micros.saturating_add(1_000));
        MasterTime::try_from(behind / 1_000).unwrap_or(0)
    }

    /// Starts the time again at the wall clock, though it goes back by that. Only for a start, before anybody was told
    /// the time.
    pub(crate) fn restart(&self) {
        let mut timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        *timeline = Timeline::start(wall(self.clock), since_boot());
    }

    /// Returns by how many milliseconds the time is ahead of the wall clock; 0 when it is behind it.
    pub fn ahead(&self) -> MasterTime {
        MasterTime::try_from(self.offset() / 1_000).unwrap_or(0)
    }

    /// Returns by how many microseconds the time is ahead of the wall clock; less than zero when it is behind it.
    pub(crate) fn offset(&self) -> i64 {
        self.micros().saturating_sub(wall(self.clock))
    }

    /// Returns how often the wall clock was seen to jump since the start.
    pub(crate) fn jumps(&self) -> u64 {
        self.jumps.load(Ordering::Relaxed)
    }

    /// Returns the time in milliseconds since 1970.
    pub fn now(&self) -> MasterTime {
        MasterTime::try_from(self.micros() / 1_000).unwrap_or(0)
    }

    /// Returns the time in microseconds since 1970.
    pub fn micros(&self) -> i64 {
        let wall = wall(self.clock);
        let mut timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, jump) = timeline.at(wall, since_boot());
        drop(timeline);
        if let Some(jump) = jump {
            self.jumps.fetch_add(1, Ordering::Relaxed);
            let (seconds, way) = (
                jump.abs() / 1_000_000,
                if jump < 0 { "back" } else { "forward" },
            );
            tracing::warn!(
                "the clock of this machine was set {way} by {seconds} s; the master's time goes on as \
                 before and is drawn to it slowly"
            );
        }
        now
    }

    /// Returns the machine's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

fn wall(clock: Clock) -> i64 {
    let since = clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the microseconds since the machine started, with the time that it slept.
fn since_boot() -> i64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec
        .saturating_mul(1_000_000)
        .saturating_add(time.tv_nsec / 1_000)
}

/// The master's time as a state machine; all times are microseconds.
#[derive(Debug, Clone, Copy)]
struct Timeline {
    /// The time at the last look at the wall clock.
    time: i64,
    /// The machine's time since its start then.
    at: i64,
    /// By how much the wall clock was ahead of the time then.
    ahead: i64,
}

impl Timeline {
    fn start(wall: i64, boot: i64) -> Self {
        Self {
            time: wall,
            at: boot,
            ahead: 0,
        }
    }

    /// Returns the time now, and the jump of the wall clock that was noticed.
    fn at(&mut self, wall: i64, boot: i64) -> (i64, Option<i64>) {
        let passed = boot.saturating_sub(self.at).max(0);
        let slew = passed / SLEW;
        let now = self.time.saturating_add(passed) + self.ahead.clamp(-slew, slew);
        if passed < WALL_CLOCK_INTERVAL {
            return (now, None);
        }
        let ahead = wall.saturating_sub(now);
        let jump = ahead.saturating_sub(self.ahead);
        // What was slewed since the last look, and the drift of the machine's clocks, are no jump.
        let noticed = (jump.abs() > JUMP.saturating_add(2 * slew)).then_some(jump);
        *self = Self {
            time: now,
            at: boot,
            ahead,
        };
        (now, noticed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000;
    const DAY: i64 = 86_400 * SECOND;

    #[test]
    fn a_jump_of_the_wall_clock_is_noticed_once_and_not_followed() {
        let mut timeline = Timeline::start(10 * DAY, 0);
        assert_eq!(
            timeline.at(10 * DAY + SECOND, SECOND),
            (10 * DAY + SECOND, None)
        );
        let ahead = 10 * DAY + 25 * 3600 * SECOND;
        let (now, jump) = timeline.at(ahead + 2 * SECOND, 2 * SECOND);
        assert_eq!(
            (now, jump),
            (10 * DAY + 2 * SECOND, Some(25 * 3600 * SECOND))
        );
        let (now, jump) = timeline.at(ahead + 12 * SECOND, 12 * SECOND);
        assert_eq!(jump, None);
        assert_eq!(now, 10 * DAY + 12 * SECOND + 10 * SECOND / SLEW);
    }

    #[test]
    fn a_small_difference_is_made_up() {
        let mut timeline = Timeline::start(0, 0);
        for second in 1..10_000 {
            timeline.at(second * SECOND + SECOND, second * SECOND);
        }
        let (now, _) = timeline.at(10_001 * SECOND, 10_000 * SECOND);
        assert!((now - 10_001 * SECOND).abs() < 1_000, "{now}");
    }

    #[test]
    fn it_goes_on_after_an_earlier_run() {
        let clock = MasterClock::new(Clock);
        let now = clock.now();
        assert_eq!(clock.rise_above(now - 1_000), 0);
        assert!(clock.rise_above(now + 3_600_000) > 3_500_000);
        assert!(clock.now() > now + 3_600_000);
        assert!((3_500_000..3_700_000).contains(&clock.ahead()));
        clock.restart();
        assert!(clock.now() < now + 60_000 && clock.ahead() < 1_000);
    }

    proptest! {
        #[test]
        fn it_never_goes_back_and_keeps_pace_with_the_machine(
            steps in proptest::collection::vec((0..5 * SECOND, -DAY..DAY), 1..200),
        ) {
            let mut timeline = Timeline::start(20 * DAY, 0);
            let (mut boot, mut last) = (0, 20 * DAY);
            for (passed, offset) in steps {
                boot += passed;
                let (now, _) = timeline.at(20 * DAY + boot + offset, boot);
                prop_assert!(now >= last);
                last = now;
                let free = 20 * DAY + boot;
                prop_assert!((now - free).abs() <= boot / SLEW + 1, "{} {}", now, free);
            }
        }
    }
}
