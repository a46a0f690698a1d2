//! What somebody asked of single runs of a job: that one does not take place, or that one takes place at another time besides.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

/// The most exceptions of each kind that one job has.
pub const MAX_EXCEPTIONS: usize = 100;

/// People name a second, and a run begins somewhere in it: the wall clock is read a moment later than it.
const BEFORE: SignedDuration = SignedDuration::from_millis(100);
const BEHIND: SignedDuration = SignedDuration::from_millis(1_100);

/// How long an exception is remembered whose run did not come: the clock may go back to it.
const EXCEPTION_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// What somebody asked of single runs of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exceptions {
    /// The seconds in which a run does not take place.
    pub(crate) skipped: BTreeSet<Timestamp>,
    /// The times at which a run takes place besides.
    pub(crate) added: BTreeSet<Timestamp>,
}

impl Exceptions {
    /// Has the run that is due, or begins, in the second `at` not take place. Returns false when there are too many.
    pub(crate) fn skip(&mut self, at: Timestamp) -> bool {
        insert(&mut self.skipped, at)
    }

    /// Has a run take place at `at`. Returns false when there are too many.
    pub(crate) fn add(&mut self, at: Timestamp) -> bool {
        insert(&mut self.added, at)
    }

    /// Whether the run that is due and begins at these times is one that does not take place. It is asked for once.
    pub(crate) fn takes_out(&mut self, due: Timestamp, begins: Timestamp) -> bool {
        let is_meant = |at: Timestamp, asked: &Timestamp| {
            let behind = at.duration_since(*asked);
            -BEFORE <= behind && behind < BEHIND
        };
        let found = self.skipped.iter();
        let found = found
            .copied()
            .find(|asked| is_meant(due, asked) || is_meant(begins, asked));
        found.is_some_and(|asked| self.skipped.remove(&asked))
    }

    /// Returns when the next run takes place besides.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.added.first().copied()
    }

    /// Takes the runs besides whose times have come: the time of the first, and whether there are more.
    pub(crate) fn take_added(&mut self, now: Timestamp) -> Option<(Timestamp, bool)> {
        let first = self.next().filter(|first| *first <= now)?;
        let count = self.added.len();
        self.added.retain(|at| *at > now);
        Some((first, count - self.added.len() > 1))
    }

    /// Forgets what was asked of runs whose time is long over.
    pub(crate) fn forget_old(&mut self, now: Timestamp) {
        self.skipped
            .retain(|at| now.duration_since(*at) < EXCEPTION_LIFETIME);
    }
}

fn insert(times: &mut BTreeSet<Timestamp>, at: Timestamp) -> bool {
    if times.len() >= MAX_EXCEPTIONS && !times.contains(&at) {
        return false;
    }
    times.insert(at);
    true
}
