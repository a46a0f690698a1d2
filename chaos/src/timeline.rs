//! What was done to the system, and when: the truth that the books are checked against.

use std::fmt;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use saline_protocol::transport::{Clock, Instant};

/// How long a minion that was started may take to be there, while the master is.
const STARTED: Duration = Duration::from_secs(5);

/// The master, or a minion; they are numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Master,
    Minion(usize),
    /// The servers of NATS, between all minions and the master.
    Nats,
}

impl Who {
    /// Whether what is done to `self` may be felt by one of these.
    fn concerns(self, who: &[Self]) -> bool {
        let is_minion = |who: &Self| matches!(who, Self::Minion(_));
        who.contains(&self) || (self == Self::Nats && who.iter().any(is_minion))
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Master => write!(f, "master"),
            Self::Minion(number) => write!(f, "m{number}"),
            Self::Nats => write!(f, "NATS"),
        }
    }
}

/// What a process went through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It did not run.
    Down,
    /// It was stopped by a signal.
    Stopped,
    /// Nothing passed between it and the master.
    Unreachable,
    /// It ran, and something else was done to it or to its link.
    Disturbed,
}

/// A time during which a process was not left alone. Times are since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Disturbance {
    pub(crate) who: Who,
    pub(crate) condition: Condition,
    pub(crate) from: Duration,
    /// None while it lasts.
    pub(crate) to: Option<Duration>,
}

/// A loss that excuses, for a time, a difference between what Saline reported and what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// A minion's machine lost its power then. With `synced`, the process that ran had `spool_sync: always`.
    Power {
        minion: usize,
        at: Duration,
        synced: bool,
    },
    /// A minion was ended at the time `to`, and its disk replaced with a copy of the time `from`.
    RolledBack {
        minion: usize,
        from: Duration,
        to: Duration,
    },
    /// A minion's disk was full.
    DiskFull {
        minion: usize,
        from: Duration,
        to: Duration,
    },
    /// The master's store was replaced with a copy of the time `from`, at the time `to`.
    Restored { from: Duration, to: Duration },
    /// A second machine had the minion's id and key.
    Cloned {
        minion: usize,
        from: Duration,
        to: Duration,
    },
    /// The minion's key was deleted then. It was let in again at once.
    KeyDeleted { minion: usize, at: Duration },
}

/// Everything that was recorded.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) disturbances: Vec<Disturbance>,
    pub(crate) losses: Vec<Loss>,
    /// Lines as they were printed.
    pub(crate) lines: Vec<String>,
    /// Faults that this machine or this build cannot inject, and why.
    pub(crate) impossible: Vec<(String, String)>,
    /// Daemons that ended without a fault.
    pub(crate) ended: Vec<(Who, Duration, String)>,
}

/// Records and prints what is done to the system. Clones share one history.
#[derive(Debug, Clone)]
pub(crate) struct Timeline {
    start: Instant,
    wall: f64,
    history: Arc<Mutex<History>>,
}

impl Timeline {
    /// Begins a history now.
    pub(crate) fn new() -> Self {
        let wall = Clock.wall().duration_since(UNIX_EPOCH);
        Self {
            start: Clock.now(),
            wall: wall.unwrap_or_default().as_secs_f64(),
            history: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, History> {
        // Every change is complete in one step, so a poisoned lock is still valid.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time since the start of the run.
    pub(crate) fn now(&self) -> Duration {
        Clock.now() - self.start
    }

    /// Converts a time of the wall clock, in seconds since 1970.
    pub(crate) fn of_wall(&self, seconds: f64) -> Duration {
        Duration::try_from_secs_f64((seconds - self.wall).max(0.0)).unwrap_or_default()
    }

    /// Prints a line with the time, and keeps it.
    pub(crate) fn note(&self, text: impl fmt::Display) {
        let line = format!("[{:8.3} s] {text}", self.now().as_secs_f64());
        // Who reads this may have seen enough, which is no reason to panic.
        let _ = writeln!(std::io::stdout(), "{line}");
        self.lock().lines.push(line);
    }

    /// Records that a fault cannot be injected here, and tells it once for each name.
    pub(crate) fn impossible(&self, name: &str, why: &str) {
        let known = self
            .lock()
            .impossible
            .iter()
            .any(|(known, _)| known == name);
        if !known {
            self.note(format_args!("not possible here: {name}: {why}"));
            let entry = (name.to_owned(), why.to_owned());
            self.lock().impossible.push(entry);
        }
    }

    /// Records and tells that a daemon ended without a fault.
    pub(crate) fn ended_by_itself(&self, who: Who, how: String) {
        self.note(format_args!("{who} ended by itself: {how}"));
        let at = self.now();
        self.lock().ended.push((who, at, how));
    }

    /// Records a loss.
    pub(crate) fn lost(&self, loss: Loss) {
        self.lock().losses.push(loss);
    }

    /// Records that a process is not left alone until the guard is dropped.
    pub(crate) fn disturb(&self, who: Who, condition: Condition) -> Disturbing {
        let mut history = self.lock();
        history.disturbances.push(Disturbance {
            who,
            condition,
            from: self.now(),
            to: None,
        });
        Disturbing {
            timeline: self.clone(),
            index: history.disturbances.len() - 1,
        }
    }

    /// Returns a copy of what was recorded.
    pub(crate) fn history(&self) -> History {
        self.lock().clone()
    }
}

/// A disturbance that lasts until this is dropped.
#[derive(Debug)]
pub(crate) struct Disturbing {
    timeline: Timeline,
    index: usize,
}

impl Drop for Disturbing {
    fn drop(&mut self) {
        let now = self.timeline.now();
        if let Some(disturbance) = self.timeline.lock().disturbances.get_mut(self.index) {
            disturbance.to = Some(now);
        }
    }
}

impl History {
    /// Whether nothing was done to any of these between two times.
    pub(crate) fn left_alone(&self, who: &[Who], from: Duration, to: Duration) -> bool {
        !self.disturbances.iter().any(|disturbance| {
            disturbance.who.concerns(who)
                && disturbance.from < to
                && disturbance.to.is_none_or(|end| end > from)
        })
    }

    /// Returns the end of the last disturbance that is over.
    pub(crate) fn left_alone_since(&self, who: Who) -> Duration {
        let of = self.disturbances.iter().filter(|d| d.who == who);
        of.filter_map(|d| d.to).max().unwrap_or_default()
    }

    /// Returns when a minion must be back after what was done to it and to the master before `at`; none
    /// while something is done to one of them. A minion that was started needs little, other returns take
    /// up to `bound`.
    pub(crate) fn back_at(&self, minion: usize, at: Duration, bound: Duration) -> Option<Duration> {
        let mut back = Duration::ZERO;
        for disturbance in self.disturbances.iter().filter(|d| d.from < at) {
            let started = match disturbance.who {
                Who::Minion(number) if number != minion => continue,
                Who::Minion(_) => disturbance.condition == Condition::Down,
                Who::Master | Who::Nats => false,
            };
            let end = disturbance.to.filter(|end| *end <= at)?;
            let bound = if started { bound.min(STARTED) } else { bound };
            back = back.max(end + bound);
        }
        Some(back)
    }

    /// Whether one disturbance that keeps the minion from being present covers the whole time.
    pub(crate) fn was_away(&self, who: Who, from: Duration, to: Duration) -> bool {
        self.disturbances.iter().any(|disturbance| {
            disturbance.who == who
                && disturbance.condition != Condition::Disturbed
                && disturbance.from <= from
                && disturbance.to.is_none_or(|end| end >= to)
        })
    }

    /// Whether a link may have brought between these times what a process had said long before: its link was slow, or held
    /// everything back until then.
    pub(crate) fn brought_late(&self, who: Who, from: Duration, to: Duration) -> bool {
        self.disturbances.iter().any(|disturbance| {
            let ended_within = disturbance.to.is_some_and(|end| end >= from && end <= to);
            let overlaps = disturbance.from <= to && disturbance.to.is_none_or(|end| end >= from);
            disturbance.who.concerns(&[who])
                && match disturbance.condition {
                    Condition::Unreachable => ended_within,
                    Condition::Disturbed => overlaps,
                    Condition::Down | Condition::Stopped => false,
                }
        })
    }

    /// Returns the times during which a process did not run; the last one may not have an end.
    pub(crate) fn downtimes(&self, who: Who) -> impl Iterator<Item = (Duration, Option<Duration>)> {
        let of = self.disturbances.iter();
        let of = of.filter(move |d| d.who == who && d.condition == Condition::Down);
        of.map(|d| (d.from, d.to))
    }

    /// Returns the end of the first time of this length, not before `from`, in which nothing is done to any of these.
    pub(crate) fn calm_after(
        &self,
        who: &[Who],
        from: Duration,
        length: Duration,
    ) -> Option<Duration> {
        let mut begin = from;
        loop {
            let within = self.disturbances.iter().filter(|d| {
                d.who.concerns(who) && d.from < begin + length && d.to.is_none_or(|end| end > begin)
            });
            // Nothing, or one without an end, or the last end of them.
            match within.map(|d| d.to.unwrap_or(Duration::MAX)).max() {
                None => return Some(begin + length),
                Some(Duration::MAX) => return None,
                Some(end) => begin = end,
            }
        }
    }
}
