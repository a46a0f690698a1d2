//! One job of a schedule: what it waits for, and what happened to it.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::entry::Entry;
use crate::exceptions::Exceptions;
use crate::past::{NextDue, Past};
use crate::runs::{Missed, Time};
use crate::skip_reason::SkipReason;
use crate::timing::Timing;

/// A run that the machine waits for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Next {
    /// Of an interval: when it is due on the monotonic clock, and the delay.
    Elapsed(Duration, Duration),
    /// Of the wall clock: when it is due, and the delay.
    Wall(NextDue, Duration),
}

/// A job of a schedule.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) entry: Arc<Entry>,
    pub(crate) enabled: bool,
    pub(crate) past: Past,
    pub(crate) last_run: Option<Timestamp>,
    /// None when nothing comes any more.
    pub(crate) next: Option<Next>,
    pub(crate) exceptions: Exceptions,
    pub(crate) running: usize,
    pub(crate) skipped: Option<(Timestamp, SkipReason)>,
}

/// Chooses the delays of splays (SplitMix64). They are no secret.
#[derive(Debug)]
pub(crate) struct Delays(pub(crate) u64);

impl Delays {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn of(&mut self, entry: &Entry) -> Duration {
        let Some((shortest, longest)) = entry.splay else {
            return Duration::ZERO;
        };
        let room = u64::try_from((longest - shortest).as_millis()).unwrap_or(u64::MAX);
        shortest + Duration::from_millis(self.next() % room.saturating_add(1))
    }
}

/// Returns a span of time as jiff has it.
fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(signed(by)).unwrap_or(Timestamp::MAX)
}

/// Returns how long after `from` the time `to` is; zero if it is before.
fn since(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// A due time that has come.
pub(crate) struct Fired {
    pub(crate) due: Timestamp,
    pub(crate) late: Duration,
    pub(crate) stands_for_more: bool,
}

impl Job {
    pub(crate) fn new(entry: Arc<Entry>, now: Timestamp) -> Self {
        Self {
            enabled: entry.enabled,
            entry,
            past: Past::new(now),
            last_run: None,
            next: None,
            exceptions: Exceptions::default(),
            running: 0,
            skipped: None,
        }
    }

    /// Returns how long a job with an interval waits at a start, and when it was due before that and does not run.
    pub(crate) fn wait_at_start(
        &self,
        interval: Duration,
        missed: Missed,
        now: Timestamp,
    ) -> (Duration, Option<Timestamp>) {
        if self.entry.run_on_start {
            return (Duration::ZERO, None);
        }
        let Some(last) = self.last_run.filter(|last| *last <= now) else {
            return (interval, None);
        };
        let passed = since(last, now);
        if passed < interval {
            return (interval - passed, None);
        }
        match missed {
            Missed::RunOnce => (Duration::ZERO, None),
            Missed::Skip => {
                let over = passed.as_nanos() % interval.as_nanos();
                let over = Duration::from_nanos(u64::try_from(over).unwrap_or_default());
                (interval - over, Some(later(last, interval)))
            }
        }
    }

    /// Begins to wait, now.
    pub(crate) fn begin(&mut self, zone: &TimeZone, delays: &mut Delays, now: Time) {
        match self.entry.timing {
            Timing::Every(interval) => {
                let due = now.elapsed.saturating_add(interval);
                self.next = Some(Next::Elapsed(due, delays.of(&self.entry)));
            }
            Timing::Clock(_) => self.aim(zone, delays),
        }
    }

    /// Chooses the next due time of the wall clock.
    pub(crate) fn aim(&mut self, zone: &TimeZone, delays: &mut Delays) {
        let Timing::Clock(timing) = &self.entry.timing else {
            return;
        };
        let next = self.past.next(timing, zone, self.entry.not_before(zone));
        let next = next.filter(|next| !self.entry.is_over(next.due, zone));
        self.next = next.map(|next| Next::Wall(next, delays.of(&self.entry)));
    }

    /// Serves the due time that has come at `now`, and chooses the next one. Returns the run, and why it does not take place if
    /// somebody asked for that.
    pub(crate) fn fire(
        &mut self,
        zone: &TimeZone,
        delays: &mut Delays,
        now: Time,
    ) -> Option<(Fired, Option<SkipReason>)> {
        let fired = self.serve(zone, delays, now)?;
        self.exceptions.forget_old(now.wall);
        let begins = now.wall.checked_sub(signed(fired.late)).unwrap_or(now.wall);
        let is_out = self.exceptions.takes_out(fired.due, begins);
        // One that stands for others too takes place for those.
        let asked = (is_out && !fired.stands_for_more).then_some(SkipReason::Asked);
        Some((fired, asked))
    }

    /// Returns the run that somebody asked for besides, if its time has come.
    pub(crate) fn added(&mut self, now: Time) -> Option<(Fired, Option<SkipReason>)> {
        let (due, stands_for_more) = self.exceptions.take_added(now.wall)?;
        let fired = Fired {
            due,
            late: since(due, now.wall),
            stands_for_more,
        };
        Some((fired, None))
    }

    fn serve(&mut self, zone: &TimeZone, delays: &mut Delays, now: Time) -> Option<Fired> {
        match (self.next?, &self.entry.timing) {
            (Next::Elapsed(due, delay), Timing::Every(interval)) => {
                let over = now.elapsed.checked_sub(due.saturating_add(delay))?;
                let since_due = now.elapsed.saturating_sub(due);
                let passed = since_due.as_nanos() / interval.as_nanos();
                let passed = u32::try_from(passed).unwrap_or(u32::MAX);
                let next = due.saturating_add(interval.saturating_mul(passed.saturating_add(1)));
                self.next = Some(Next::Elapsed(next, delays.of(&self.entry)));
                Some(Fired {
                    due: now.wall.checked_sub(signed(since_due)).unwrap_or(now.wall),
                    late: over,
                    stands_for_more: passed > 0 && over >= *interval,
                })
            }
            (Next::Wall(next, delay), Timing::Clock(timing)) => {
                let fires = later(next.due, delay);
                if now.wall < fires {
                    return None;
                }
                let stands_for_more = self.past.serve(next, timing, zone, now.wall);
                self.aim(zone, delays);
                Some(Fired {
                    due: next.due,
                    late: since(fires, now.wall),
                    stands_for_more,
                })
            }
            // What is waited for is of the entry's timing.
            _ => None,
        }
    }

    /// Returns how long it takes until the next run.
    pub(crate) fn wait(&self, now: Time) -> Option<Duration> {
        let next = self.next.map(|next| match next {
            Next::Elapsed(due, delay) => due.saturating_add(delay).saturating_sub(now.elapsed),
            Next::Wall(next, delay) => since(now.wall, later(next.due, delay)),
        });
        let added = self.exceptions.next().map(|at| since(now.wall, at));
        next.into_iter().chain(added).min()
    }

    /// Returns when the next run begins, by the wall clock.
    pub(crate) fn fires_at(&self, now: Time) -> Option<Timestamp> {
        let next = self.next.map(|next| match next {
            Next::Elapsed(due, delay) => {
                let wait = due.saturating_add(delay).saturating_sub(now.elapsed);
                later(now.wall, wait)
            }
            Next::Wall(next, delay) => later(next.due, delay),
        });
        next.into_iter().chain(self.exceptions.next()).min()
    }
}
