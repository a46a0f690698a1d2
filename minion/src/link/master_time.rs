//! The master's time, by which jobs expire.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::time::{ClockId, clock_gettime};
use saline_messages::MasterTime;

/// How much the clocks may drift apart, as a divisor: a thousandth. A master draws its time to its wall
/// clock more slowly than that.
const DRIFT: i64 = 1_000;

/// A time of a clock of this machine that never steps and also runs while the machine sleeps, in
/// milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalTime(i64);

impl LocalTime {
    /// Returns the time now.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        Self(
            time.tv_sec
                .saturating_mul(1000)
                .saturating_add(time.tv_nsec / 1_000_000),
        )
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
        let drift = (newer.at.0 - self.at.0) / DRIFT + 1;
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
            least: time.saturating_sub(arrived.0),
            most: time.saturating_sub(sent.0),
            at: arrived,
        };
        let mut bounds = self.lock();
        *bounds = Some(bounds.map_or(newer, |bounds| bounds.join(newer)));
    }

    /// Returns a time that the master's clock has surely reached; none before any reply.
    pub fn reached(&self) -> Option<MasterTime> {
        self.reached_at(LocalTime::now())
    }

    fn reached_at(&self, now: LocalTime) -> Option<MasterTime> {
        let bounds = (*self.lock())?;
        let drift = (now.0 - bounds.at.0) / DRIFT;
        let time = now.0.saturating_add(bounds.least).saturating_sub(drift);
        Some(MasterTime::try_from(time).unwrap_or(0))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Bounds>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        clock.take_at(LocalTime(0), LocalTime(80_000), 1_080_000);
        // The request took no time, and the reply 80 s.
        clock.take_at(LocalTime(90_000), LocalTime(170_000), 1_090_000);
        let reached = clock.reached_at(LocalTime(170_000)).unwrap();
        assert!((1_169_800..=1_170_000).contains(&reached), "{reached}");
    }

    #[test]
    fn short_round_trips_are_believed_over_long_ones() {
        let clock = MasterTimeEstimate::default();
        clock.take_at(LocalTime(0), LocalTime(10), 1_000_005);
        clock.take_at(LocalTime(1_000), LocalTime(81_000), 1_001_000);
        let reached = clock.reached_at(LocalTime(81_000)).unwrap();
        assert!((1_080_900..=1_081_000).contains(&reached), "{reached}");
    }

    #[test]
    fn a_master_whose_time_has_changed_is_believed() {
        let clock = MasterTimeEstimate::default();
        clock.take_at(LocalTime(0), LocalTime(10), 1_000_000);
        clock.take_at(LocalTime(100), LocalTime(110), 500_000);
        assert_eq!(clock.reached_at(LocalTime(110)), Some(500_000));
    }
}
