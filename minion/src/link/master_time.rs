//! The master's time, by which jobs expire.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use saline_messages::MasterTime;

/// How much the clocks may drift apart, as a divisor: a thousandth. A master draws its time to its wall
/// clock more slowly than that.
const DRIFT: i64 = 1_000;

/// A moment by two clocks of this machine, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// By the clock that never steps and also runs while the machine sleeps. It stands still while a hypervisor pauses the
    /// machine.
    boot: i64,
    /// By the clock that somebody may set. A hypervisor sets it right after a pause.
    wall: i64,
}

impl LocalTime {
    /// Returns the time now.
    pub fn now() -> Self {
        let milliseconds = |clock| {
            let time = clock_gettime(clock);
            let seconds = time.tv_sec.saturating_mul(1000);
            seconds.saturating_add(time.tv_nsec / 1_000_000)
        };
        Self {
            boot: milliseconds(ClockId::Boottime),
            wall: milliseconds(ClockId::Realtime),
        }
    }
}

/// The master's clock, as bounds of its offset to the local time. A reply was made at some moment between
/// its request and its arrival: the shorter that was, the closer the bounds.
#[derive(Debug, Default)]
pub struct MasterTimeEstimate(Mutex<Option<Bounds>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    least: i64,
    most: i64,
    /// When the bounds were right.
    at: LocalTime,
}

impl Bounds {
    /// Joins bounds of another time with these. Returns those alone when both cannot be true: then the
    /// master is another one, or its time has changed.
    fn join(self, newer: Self) -> Self {
        let drift = (newer.at.boot - self.at.boot) / DRIFT + 1;
        let joined = Self {
            least: newer.least.max(self.least - drift),
            most: newer.most.min(self.most.saturating_add(drift)),
            at: newer.at,
        };
        if joined.least <= joined.most {
            joined
        } else {
            newer
        }
    }
}

impl MasterTimeEstimate {
    /// Takes the master's time from a reply that arrives now, to a request that was sent at `sent`.
    pub fn take(&self, sent: LocalTime, time: MasterTime) {
        self.take_at(sent, LocalTime::now(), time);
    }

    fn take_at(&self, sent: LocalTime, arrived: LocalTime, time: MasterTime) {
        let time = i64::try_from(time).unwrap_or(i64::MAX);
        let newer = Bounds {
            least: time.saturating_sub(arrived.boot),
            most: time.saturating_sub(sent.boot),
            at: arrived,
        };
        let mut bounds = self.lock();
        *bounds = Some(bounds.map_or(newer, |bounds| bounds.join(newer)));
    }

    /// Returns how long ago the master replied last; none before any reply.
    pub fn age(&self) -> Option<Duration> {
        let at = self.lock().map(|bounds| bounds.at)?;
        let passed = LocalTime::now().boot.saturating_sub(at.boot);
        Some(Duration::from_millis(u64::try_from(passed).unwrap_or(0)))
    }

    /// Returns by about how many milliseconds the master's time is ahead of the clock of this machine; none before any reply.
    pub fn ahead(&self) -> Option<i64> {
        let bounds = (*self.lock())?;
        let now = LocalTime::now();
        let offset = bounds.least.midpoint(bounds.most);
        Some(now.boot.saturating_add(offset).saturating_sub(now.wall))
    }

    /// Returns a time that the master's clock has surely reached; none before any reply.
    pub fn reached(&self) -> Option<MasterTime> {
        self.reached_at(LocalTime::now())
    }

    fn reached_at(&self, now: LocalTime) -> Option<MasterTime> {
        let bounds = (*self.lock())?;
        let drift = (now.boot - bounds.at.boot) / DRIFT;
        let time = now.boot.saturating_add(bounds.least).saturating_sub(drift);
        Some(MasterTime::try_from(time).unwrap_or(0))
    }

    /// Whether the master's clock may have passed `time`, because more time has passed by this machine's wall clock than by
    /// the other one: the machine was paused, or its clock was set. Only the master knows then.
    pub fn may_have_passed(&self, time: MasterTime) -> bool {
        self.may_have_passed_at(LocalTime::now(), time)
    }

    fn may_have_passed_at(&self, now: LocalTime, time: MasterTime) -> bool {
        let Some(at) = self.lock().map(|bounds| bounds.at) else {
            return false;
        };
        let passed = (now.boot - at.boot, now.wall.saturating_sub(at.wall));
        let missed = passed.1.saturating_sub(passed.0).max(0);
        let missed = MasterTime::try_from(missed).unwrap_or(0);
        let reached = self.reached_at(now);
        reached.is_some_and(|reached| reached.saturating_add(missed) > time)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Bounds>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A moment at which both clocks have run for as long.
    fn at(time: i64) -> LocalTime {
        LocalTime {
            boot: time,
            wall: time,
        }
    }

    #[test]
    fn it_goes_on_from_what_the_master_said() {
        let clock = MasterTimeEstimate::default();
        assert_eq!(clock.reached(), None);
        clock.take(LocalTime::now(), 1_000_000);
        let now = clock.reached().unwrap();
        assert!((1_000_000..1_010_000).contains(&now), "{now}");
    }

    #[test]
    fn a_slow_link_does_not_make_the_clock_fast() {
        let clock = MasterTimeEstimate::default();
        // The request took 80 s, and the reply no time: the reply was made when it arrived.
        clock.take_at(at(0), at(80_000), 1_080_000);
        // The request took no time, and the reply 80 s.
        clock.take_at(at(90_000), at(170_000), 1_090_000);
        let reached = clock.reached_at(at(170_000)).unwrap();
        assert!((1_169_800..=1_170_000).contains(&reached), "{reached}");
    }

    #[test]
    fn short_round_trips_are_believed_over_long_ones() {
        let clock = MasterTimeEstimate::default();
        clock.take_at(at(0), at(10), 1_000_005);
        clock.take_at(at(1_000), at(81_000), 1_001_000);
        let reached = clock.reached_at(at(81_000)).unwrap();
        assert!((1_080_900..=1_081_000).contains(&reached), "{reached}");
    }

    #[test]
    fn a_master_whose_time_has_changed_is_believed() {
        let clock = MasterTimeEstimate::default();
        clock.take_at(at(0), at(10), 1_000_000);
        clock.take_at(at(100), at(110), 500_000);
        assert_eq!(clock.reached_at(at(110)), Some(500_000));
    }

    #[test]
    fn a_pause_of_the_machine_shows_by_its_wall_clock() {
        let clock = MasterTimeEstimate::default();
        assert!(!clock.may_have_passed_at(at(0), 0), "nothing is known");
        clock.take_at(at(0), at(10), 1_000_005);
        let expires = 1_060_000;
        assert!(!clock.may_have_passed_at(at(50_000), expires));
        // A hypervisor paused the machine for an hour: only the wall clock knows.
        let resumed = LocalTime {
            boot: 5_000,
            wall: 3_605_000,
        };
        assert!(clock.reached_at(resumed).unwrap() < expires);
        assert!(clock.may_have_passed_at(resumed, expires));
        assert!(!clock.may_have_passed_at(resumed, 1_000_005 + 3_610_000));
        // A clock that was set back tells nothing.
        let set_back = LocalTime {
            boot: 5_000,
            wall: -3_600_000,
        };
        assert!(!clock.may_have_passed_at(set_back, expires));
        // The next answer of the master counts, whatever the wall clock says.
        clock.take_at(resumed, resumed, 1_005_000);
        assert!(!clock.may_have_passed_at(resumed, expires));
    }
}
