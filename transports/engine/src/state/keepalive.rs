//! When an idle connection says something, and when a silent one is dead.
//!
//! Both ends ping when they were silent. Every byte is a sign of life, and on QUIC every acknowledgement too. Time
//! in which this process did not run does not count as a peer's silence: a machine that was held up would otherwise
//! cut every connection that it has.

use std::time::Duration;

use saline_protocol::transport::{Instant, Limits};

/// No peer can ask to be pinged more often.
const MIN_PING_INTERVAL: Duration = Duration::from_millis(50);

/// The times of one connection, from the limits of this end and what the peer asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// An end that was silent so long says something. Both ends do, so neither has to answer.
    pub ping_after: Duration,
    /// A peer that was silent so long is gone. Less than the two
    /// [`ping_interval`](Limits::ping_interval)s that the contract allows, so that what follows is
    /// done in time too.
    pub dead_after: Duration,
}

impl Keepalive {
    /// Returns the times for an end with `limits` whose peer wants to hear something every
    /// `peer_ping`.
    #[must_use]
    pub fn new(limits: &Limits, peer_ping: Duration) -> Self {
        let often = limits.ping_interval.min(peer_ping.max(MIN_PING_INTERVAL));
        Self {
            ping_after: often * 3 / 4,
            dead_after: limits.ping_interval * 39 / 20,
        }
    }
}

/// Judges the silence of a peer that may have gone without a FIN.
///
/// Time in which this process did not run (a machine that is overloaded, suspended or moved) says
/// nothing about the peer: whoever drives the timer looks at [`deadline`](Self::deadline), and a look
/// that comes late gives the peer the missing time. So a connection is not cut because its own end
/// was asleep. Every byte is a sign of life, not every message, because a large one takes its time.
///
/// ```
/// use std::time::Duration;
/// use saline_engine::IdleTimer;
/// use saline_protocol::transport::Clock;
///
/// let start = Clock.now();
/// let mut timer = IdleTimer::new(start, Duration::from_secs(8));
/// timer.heard(start + Duration::from_secs(3));
/// let mut now = timer.deadline();
/// while !timer.is_dead(now) {
///     now = timer.deadline();
/// }
/// assert_eq!(now, start + Duration::from_secs(11));
/// ```
#[derive(Debug, Clone)]
pub struct IdleTimer {
    dead_after: Duration,
    heard: Instant,
    /// When to look next: not at every sign of life, which are many.
    deadline: Instant,
}

impl IdleTimer {
    /// Returns the timer of a peer that was heard `now` and is dead after a silence of `dead_after`.
    #[must_use]
    pub fn new(now: Instant, dead_after: Duration) -> Self {
        Self {
            dead_after,
            heard: now,
            deadline: now + dead_after / 2,
        }
    }

    /// Takes note that the peer said something.
    pub fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Returns when to ask [`is_dead`](Self::is_dead) next.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns whether the peer has been silent for too long. Asked at the deadline, and what has
    /// arrived by then is reported first.
    pub fn is_dead(&mut self, now: Instant) -> bool {
        let late = now.saturating_duration_since(self.deadline);
        if self.is_dead_at_look(now, late) {
            return true;
        }
        let dead = self.heard + self.dead_after;
        // Once at half of the time, and then in steps, so that an end which slept shows.
        let half = self.heard + self.dead_after / 2;
        let step = now + self.dead_after / 8;
        self.deadline = half.max(step).min(dead);
        false
    }

    /// Does what [`is_dead`](Self::is_dead) does for an owner that looks at many peers at once, at
    /// times of its own: this look comes `late` after its time.
    pub fn is_dead_at_look(&mut self, now: Instant, late: Duration) -> bool {
        if late > self.dead_after / 16 {
            self.heard = (self.heard + late).min(now);
        }
        now >= self.heard + self.dead_after
    }
}

/// Tells when an end that has nothing to say has to say something all the same.
#[derive(Debug, Clone)]
pub struct PingTimer {
    ping_after: Duration,
    spoke: Instant,
}

impl PingTimer {
    /// Returns the timer of an end that spoke `now` and speaks again after `ping_after`.
    #[must_use]
    pub fn new(now: Instant, ping_after: Duration) -> Self {
        Self {
            ping_after,
            spoke: now,
        }
    }

    /// Takes note that something was written.
    pub fn spoke(&mut self, now: Instant) {
        self.spoke = now;
    }

    /// Returns when a ping is due, unless something is written before.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.spoke + self.ping_after
    }
}

/// Points of time that the timers of many connections share, so that a server with thousands of them wakes once for all
/// whose times come close together, and not for each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticks {
    origin: Instant,
    period: Duration,
}

impl Ticks {
    /// The ticks of a server that was started at `origin`. Connections with the same times have the same ticks.
    pub(crate) fn new(origin: Instant, keepalive: &Keepalive) -> Self {
        Self {
            origin,
            period: keepalive.ping_after / 32,
        }
    }

    /// Returns the last tick that is not after `at`; `at` itself when that has passed.
    pub(crate) fn before(&self, at: Instant, now: Instant) -> Instant {
        let tick = self.last(at);
        match tick > now {
            true => tick,
            false => at,
        }
    }

    /// Whether an action that is due at `at` has to be done now, because no tick follows before `at`.
    pub(crate) fn is_due(&self, at: Instant, now: Instant) -> bool {
        self.last(at) <= now
    }

    fn last(&self, at: Instant) -> Instant {
        let since = at.saturating_duration_since(self.origin).as_nanos();
        let into = since % self.period.as_nanos().max(1);
        let into = Duration::from_nanos(u64::try_from(into).unwrap_or_default());
        at.checked_sub(into).unwrap_or(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use saline_protocol::transport::Clock;

    const DEAD: Duration = Duration::from_secs(8);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Looks at every deadline until the peer is dead, and returns when that was.
    fn death(timer: &mut IdleTimer) -> Instant {
        loop {
            let now = timer.deadline();
            if timer.is_dead(now) {
                return now;
            }
        }
    }

    #[test]
    fn a_silent_peer_is_dead_at_its_time_exactly() {
        let start = Clock.now();
        let mut timer = IdleTimer::new(start, DEAD);
        assert_eq!(death(&mut timer) - start, DEAD);
    }

    #[test]
    fn time_that_was_slept_through_does_not_count() {
        let start = Clock.now();
        let mut timer = IdleTimer::new(start, DEAD);
        // A look was due after four seconds; it comes 100 seconds late.
        assert!(!timer.is_dead(start + seconds(104)));
        assert_eq!(death(&mut timer) - start, DEAD + seconds(100));
    }

    #[test]
    fn looks_at_times_of_their_own_give_the_time_by_which_they_are_late() {
        let start = Clock.now();
        let mut timer = IdleTimer::new(start, DEAD);
        assert!(!timer.is_dead_at_look(start + seconds(7), Duration::ZERO));
        assert!(!timer.is_dead_at_look(start + seconds(20), seconds(13)));
        assert!(!timer.is_dead_at_look(start + seconds(20), Duration::ZERO));
        assert!(timer.is_dead_at_look(start + seconds(21), Duration::ZERO));
    }

    /// A server looks at thousands of peers: at one that talks once in half of its time, at a silent one in steps.
    #[test]
    fn a_peer_is_looked_at_no_oftener_than_its_silence_asks_for() {
        let start = Clock.now();
        let mut timer = IdleTimer::new(start, DEAD);
        assert_eq!(timer.deadline(), start + DEAD / 2);
        timer.heard(start + DEAD / 2);
        assert!(!timer.is_dead(start + DEAD / 2));
        assert_eq!(timer.deadline(), start + DEAD);
        assert!(!timer.is_dead(start + DEAD));
        assert_eq!(timer.deadline(), start + DEAD + DEAD / 8);
    }

    #[test]
    fn a_look_that_is_a_little_late_gives_no_time() {
        let start = Clock.now();
        let mut timer = IdleTimer::new(start, DEAD);
        assert!(timer.is_dead_at_look(start + DEAD, DEAD / 16));
    }

    #[test]
    fn each_end_pings_as_often_as_either_wants_within_reason() {
        let mut limits = Limits::default();
        limits.ping_interval = seconds(4);
        let times = |peer| Keepalive::new(&limits, peer);
        assert_eq!(times(seconds(60)).ping_after, seconds(3));
        assert_eq!(times(seconds(2)).ping_after, seconds(2) * 3 / 4);
        assert_eq!(times(Duration::ZERO).ping_after, MIN_PING_INTERVAL * 3 / 4);
        assert_eq!(times(seconds(60)).dead_after, seconds(4) * 39 / 20);
    }

    #[test]
    fn a_ping_is_due_after_the_last_word() {
        let start = Clock.now();
        let mut timer = PingTimer::new(start, seconds(3));
        assert_eq!(timer.deadline(), start + seconds(3));
        timer.spoke(start + seconds(2));
        assert_eq!(timer.deadline(), start + seconds(5));
    }

    /// Returns the ticks of a server that was started then, whose connections are pinged after 3.2 seconds.
    fn ticks(origin: Instant) -> Ticks {
        let keepalive = Keepalive {
            ping_after: Duration::from_millis(3_200),
            dead_after: DEAD,
        };
        Ticks::new(origin, &keepalive)
    }

    #[test]
    fn timers_of_about_the_same_time_go_off_together_and_none_late() {
        let start = Clock.now();
        let ticks = ticks(start);
        let at = |millis| start + Duration::from_millis(millis);
        for millis in [1_000, 1_001, 1_099] {
            assert_eq!(ticks.before(at(millis), start), at(1_000));
        }
        assert_eq!(ticks.before(at(1_100), start), at(1_100));
        assert_eq!(
            ticks.before(at(1_050), at(1_000)),
            at(1_050),
            "no tick is left"
        );
        assert!(ticks.is_due(at(1_050), at(1_000)));
        assert!(!ticks.is_due(at(1_050), at(999)));
        assert!(!ticks.is_due(at(1_100), at(1_000)));
    }

    proptest! {
        /// A peer that is checked at ticks is dead exactly `DEAD` after its last byte too, after a bounded number of checks.
        #[test]
        fn looks_at_ticks_neither_delay_a_death_nor_spin(heard in 0u64..10_000_000) {
            let origin = Clock.now();
            let ticks = ticks(origin);
            let mut now = origin + Duration::from_micros(heard);
            let mut timer = IdleTimer::new(now, DEAD);
            let start = now;
            let mut looks = 0;
            while !timer.is_dead(now) {
                now = ticks.before(timer.deadline(), now);
                looks += 1;
                prop_assert!(looks < 20);
            }
            prop_assert_eq!(now - start, DEAD);
        }

        /// Whatever is heard when: looked at in time, the peer is dead exactly `DEAD` after its last
        /// word, and no earlier.
        #[test]
        fn death_comes_a_whole_silence_after_the_last_word(words in prop::collection::vec(0u64..7900, 0..40)) {
            let start = Clock.now();
            let mut timer = IdleTimer::new(start, DEAD);
            let mut last = start;
            for word in words {
                let at = last + Duration::from_millis(word);
                while timer.deadline() < at {
                    let now = timer.deadline();
                    prop_assert!(!timer.is_dead(now));
                }
                timer.heard(at);
                last = at;
            }
            prop_assert_eq!(death(&mut timer), last + DEAD);
        }

        /// However late the looks come, a peer gets at least a whole silence, and what this end slept
        /// through is all that is added.
        #[test]
        fn late_looks_give_time_and_never_take_any(lates in prop::collection::vec(0u64..20_000, 0..10)) {
            let start = Clock.now();
            let mut timer = IdleTimer::new(start, DEAD);
            let mut slept = Duration::ZERO;
            let mut now = start;
            let mut dead = false;
            for late in lates {
                let late = Duration::from_millis(late);
                now = timer.deadline() + late;
                slept += late;
                dead = timer.is_dead(now);
                if dead {
                    break;
                }
            }
            if !dead {
                now = death(&mut timer);
            }
            prop_assert!(now - start >= DEAD);
            prop_assert!(now - start <= DEAD + slept);
        }
    }
}
