//! The due times of one job that were served. The clock may be set forth and back over a due time: it is served once.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::timing::ClockTiming;

/// The most ranges of due times that are remembered. A clock that is set adds one, and so does a run that stands for several
/// due times. Beyond these the oldest is forgotten, and only a clock that goes back that far serves it again.
const MAX_RANGES: usize = 1_000;

/// A clock that goes back by more than this had a wrong date: the due times of that date are forgotten, since they will
/// come, and the job would not run until then.
const CORRECTION: SignedDuration = SignedDuration::from_hours(24);

/// The due times that were served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Past {
    /// Due times up to here are over, unless the clock goes back.
    pub(crate) cursor: Timestamp,
    /// The first and the last of due times that follow each other and were all served.
    pub(crate) served: Vec<(Timestamp, Timestamp)>,
}

/// A due time that is to be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextDue {
    pub(crate) due: Timestamp,
    /// The due time, or the time of the clock, after which it is the first.
    after: Timestamp,
}

impl Past {
    /// The past of a job that is new at `now`.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            cursor: now,
            served: Vec::new(),
        }
    }

    /// Returns the next due time that was not served, at `not_before` at the earliest.
    pub(crate) fn next(
        &self,
        timing: &ClockTiming,
        zone: &TimeZone,
        not_before: Option<Timestamp>,
    ) -> Option<NextDue> {
        // So that a due time at the very beginning counts.
        let just_before =
            |at: Timestamp| at.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(at);
        let mut after = not_before.map_or(self.cursor, |at| self.cursor.max(just_before(at)));
        // Each step leaves one range behind.
        for _ in 0..=self.served.len() {
            let due = timing.next_after(after, zone)?;
            let covering = self
                .served
                .iter()
                .find(|(first, last)| (*first..=*last).contains(&due));
            match covering {
                Some((_, last)) => after = *last,
                None => return Some(NextDue { due, after }),
            }
        }
        None
    }

    /// Notes that a due time is served at `now`. Further ones that have passed meanwhile are over as well; returns whether
    /// there are such.
    pub(crate) fn serve(
        &mut self,
        NextDue { due, after }: NextDue,
        timing: &ClockTiming,
        zone: &TimeZone,
        now: Timestamp,
    ) -> bool {
        match self.served.iter_mut().find(|(_, last)| *last == after) {
            Some((_, last)) => *last = due,
            None => self.served.push((due, due)),
        }
        if self.served.len() > MAX_RANGES {
            self.served.sort_unstable();
            self.served.remove(0);
        }
        let has_more = timing.next_after(due, zone).is_some_and(|next| next <= now);
        self.cursor = if has_more { now.max(due) } else { due };
        has_more
    }

    /// Takes the time of the clock, which may have gone back. Returns whether it went back so far that what was served
    /// after `now` is forgotten.
    pub(crate) fn take_time(&mut self, now: Timestamp) -> bool {
        if now >= self.cursor {
            return false;
        }
        let back = self.cursor.duration_since(now);
        self.cursor = now;
        let is_correction = back > CORRECTION;
        if is_correction {
            self.served.retain(|(first, _)| *first <= now);
            for (_, last) in &mut self.served {
                *last = (*last).min(now);
            }
        }
        is_correction
    }
}
