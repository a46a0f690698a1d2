//! The state machine of a schedule. It takes the time and the ends of runs, and returns what is due: it has no clock, no task
//! and no file.
//!
//! Intervals are counted by the monotonic clock, which no administrator sets; `cron`, `when` and `once` go by the wall
//! clock. A due time is served once, also when the clock is set back and passes it again. When several due times have
//! passed at once, since the daemon or its machine was stopped, the job runs once for all of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::entry::Entry;
use crate::past::{NextDue, Past};
use crate::timing::Timing;

/// The two clocks at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    /// The wall clock, which may be set.
    pub wall: Timestamp,
    /// The monotonic clock, from any beginning.
    pub elapsed: Duration,
}

/// What becomes of the due times that passed while the daemon was down: `schedule_missed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missed {
    /// They are skipped, and the log says so.
    #[default]
    Skip,
    /// The job runs once for all of them.
    RunOnce,
}

/// What is remembered of a job over a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The times at which the job was due, in words: with other times nothing was missed.
    pub timing: String,
    /// When the job ran last.
    pub last_run: Option<Timestamp>,
    /// The time up to which its due times are over.
    pub cursor: Timestamp,
    /// Ranges of due times that were served.
    pub served: Vec<(Timestamp, Timestamp)>,
}

/// A run that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct Due {
    /// The name of the job.
    pub name: String,
    /// The job.
    pub entry: Arc<Entry>,
    /// The time at which it was due.
    pub due: Timestamp,
    /// By how much the run is later than that, and than the delay of its splay.
    pub late: Duration,
    /// Whether further due times passed meanwhile, which have no run of their own.
    pub stands_for_more: bool,
}

/// A run that was due and does not take place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The name of the job.
    pub name: String,
    /// The time at which it was due.
    pub due: Timestamp,
    /// The reason.
    pub reason: SkipReason,
}

/// Why a run does not take place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// As many runs of the job are under way as may be.
    MaxRunning,
    /// The daemon was down when it was due.
    Missed,
    /// It is before the job's `after`.
    After,
    /// It is behind the job's `until`.
    Until,
    /// It is outside of the job's `range`.
    Range,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MaxRunning => "as many runs of it are under way as `maxrunning` allows",
            Self::Missed => {
                "it was due while the daemon was down (schedule_missed: run_once runs such jobs)"
            }
            Self::After => "it is not yet `after`",
            Self::Until => "`until` is over",
            Self::Range => "it is outside of `range`",
        })
    }
}

/// What happened at one time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Polled {
    /// The runs that are to begin.
    pub due: Vec<Due>,
    /// The runs that do not take place.
    pub skipped: Vec<Skip>,
    /// Jobs of which served due times were forgotten, since the clock went back by more than a day.
    pub forgot: Vec<String>,
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// The job.
    pub entry: Arc<Entry>,
    /// Whether it runs by the clock.
    pub enabled: bool,
    /// When the next run begins, by the wall clock; none when there is none.
    pub next: Option<Timestamp>,
    /// When the job ran last.
    pub last_run: Option<Timestamp>,
    /// How many runs are under way.
    pub running: usize,
    /// The last run that did not take place.
    pub skipped: Option<(Timestamp, SkipReason)>,
}

/// A run that the machine waits for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Next {
    /// Of an interval: when it is due on the monotonic clock, and the delay.
    Elapsed(Duration, Duration),
    /// Of the wall clock: when it is due, and the delay.
    Wall(NextDue, Duration),
}

#[derive(Debug)]
struct Job {
    entry: Arc<Entry>,
    enabled: bool,
    past: Past,
    last_run: Option<Timestamp>,
    /// None when nothing comes any more.
    next: Option<Next>,
    running: usize,
    skipped: Option<(Timestamp, SkipReason)>,
}

/// The jobs of a daemon, and when each is due.
#[derive(Debug)]
pub struct Schedule {
    zone: TimeZone,
    jobs: BTreeMap<String, Job>,
    /// How many runs of jobs that were removed are under way, by the names of the jobs.
    leftover: BTreeMap<String, usize>,
    enabled: bool,
    delays: Delays,
}

/// Chooses the delays of splays (SplitMix64). They are no secret.
#[derive(Debug)]
struct Delays(u64);

impl Delays {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn of(&mut self, entry: &Entry) -> Duration {
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

impl Schedule {
    /// Creates a schedule without jobs, for a machine in `zone`. Machines with other seeds choose other delays.
    pub fn new(zone: TimeZone, seed: u64) -> Self {
        Self {
            zone,
            jobs: BTreeMap::new(),
            leftover: BTreeMap::new(),
            enabled: true,
            delays: Delays(seed),
        }
    }

    /// Sets the time zone of the machine. Jobs that go by the wall clock are due by it from now on.
    pub fn set_zone(&mut self, zone: TimeZone) {
        self.zone = zone;
        for job in self.jobs.values_mut() {
            if let Some(Next::Wall(..)) = job.next {
                job.aim(&self.zone, &mut self.delays);
            }
        }
    }

    /// Adds a job at the start of the daemon, with what is remembered of it. Returns the run that was missed and is skipped.
    pub fn start(
        &mut self,
        name: &str,
        entry: Arc<Entry>,
        remembered: Option<Remembered>,
        missed: Missed,
        now: Time,
    ) -> Option<Skip> {
        let timing = entry.timing.to_string();
        let remembered = remembered.filter(|remembered| remembered.timing == timing);
        let mut job = Job::new(entry, now.wall);
        let mut skip = None;
        if let Some(remembered) = remembered {
            job.last_run = remembered.last_run;
            job.past.cursor = remembered.cursor;
            job.past.served = remembered.served;
            job.past.take_time(now.wall);
        }
        match &job.entry.timing {
            Timing::Every(interval) => {
                let (wait, missed_at) = job.wait_at_start(*interval, missed, now.wall);
                skip = missed_at;
                let delay = self.delays.of(&job.entry);
                job.next = Some(Next::Elapsed(now.elapsed.saturating_add(wait), delay));
            }
            Timing::Clock(timing) => {
                let not_before = job.entry.not_before(&self.zone);
                let next = job.past.next(timing, &self.zone, not_before);
                let passed = next
                    .filter(|next| next.due <= now.wall)
                    .map(|next| next.due);
                if missed == Missed::Skip && passed.is_some() {
                    skip = passed;
                    job.past.cursor = now.wall;
                }
                job.aim(&self.zone, &mut self.delays);
            }
        }
        let skip = skip.filter(|_| job.enabled && self.enabled);
        job.skipped = skip.map(|due| (due, SkipReason::Missed));
        self.jobs.insert(name.to_owned(), job);
        skip.map(|due| Skip {
            name: name.to_owned(),
            due,
            reason: SkipReason::Missed,
        })
    }

    /// Adds or changes a job while the daemon runs. With the same times it goes on as it was; with others nothing is due
    /// before now, and an interval begins now.
    pub fn set(&mut self, name: &str, entry: Arc<Entry>, now: Time) {
        let before = self.jobs.remove(name);
        let mut job = match before {
            Some(mut before) if before.entry.timing == entry.timing => {
                let is_aimed = before.enabled == entry.enabled && before.entry.splay == entry.splay;
                before.enabled = entry.enabled;
                before.entry = entry;
                if is_aimed && matches!(before.next, Some(Next::Elapsed(..))) {
                    self.jobs.insert(name.to_owned(), before);
                    return;
                }
                before
            }
            Some(before) => Job {
                running: before.running,
                last_run: before.last_run,
                ..Job::new(entry, now.wall)
            },
            None => Job {
                running: self.leftover.remove(name).unwrap_or_default(),
                ..Job::new(entry, now.wall)
            },
        };
        job.begin(&self.zone, &mut self.delays, now);
        self.jobs.insert(name.to_owned(), job);
    }

    /// Removes a job. Returns whether there was one. A run that is under way goes on, and counts for a job that is added
    /// under the same name meanwhile.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(job) = self.jobs.remove(name) else {
            return false;
        };
        if job.running > 0 {
            self.leftover.insert(name.to_owned(), job.running);
        }
        true
    }

    /// Has a job run by the clock, or not. What was due meanwhile is over. Returns whether there is such a job.
    pub fn enable_job(&mut self, name: &str, enabled: bool, now: Time) -> bool {
        let Some(job) = self.jobs.get_mut(name) else {
            return false;
        };
        if job.enabled != enabled {
            job.enabled = enabled;
            job.past.cursor = job.past.cursor.max(now.wall);
            job.begin(&self.zone, &mut self.delays, now);
        }
        true
    }

    /// Has all jobs run by the clock, or none. What was due meanwhile is over.
    pub fn enable(&mut self, enabled: bool, now: Time) {
        if self.enabled == enabled {
            return;
        }
        self.enabled = enabled;
        for job in self.jobs.values_mut() {
            job.past.cursor = job.past.cursor.max(now.wall);
            job.begin(&self.zone, &mut self.delays, now);
        }
    }

    /// Whether jobs run by the clock.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Returns what is due at `now`. Each run counts as under way until [`ended`](Self::ended) is called for it.
    pub fn poll(&mut self, now: Time) -> Polled {
        let mut polled = Polled::default();
        if !self.enabled {
            return polled;
        }
        for (name, job) in &mut self.jobs {
            if !job.enabled {
                continue;
            }
            if let Timing::Clock(_) = job.entry.timing
                && now.wall < job.past.cursor
            {
                if job.past.take_time(now.wall) {
                    polled.forgot.push(name.clone());
                }
                job.aim(&self.zone, &mut self.delays);
            }
            let Some(fired) = job.fire(&self.zone, &mut self.delays, now) else {
                continue;
            };
            let hindered = match job.running >= job.entry.maxrunning {
                true => Some(SkipReason::MaxRunning),
                false => job.entry.hinders(now.wall, &self.zone),
            };
            match hindered {
                Some(reason) => {
                    job.skipped = Some((fired.due, reason));
                    polled.skipped.push(Skip {
                        name: name.clone(),
                        due: fired.due,
                        reason,
                    });
                }
                None => {
                    job.running += 1;
                    job.last_run = Some(now.wall);
                    polled.due.push(Due {
                        name: name.clone(),
                        entry: Arc::clone(&job.entry),
                        due: fired.due,
                        late: fired.late,
                        stands_for_more: fired.stands_for_more,
                    });
                }
            }
        }
        polled
    }

    /// Returns a run of a job now, whatever is due; none if there is no such job. Its times stay as they are.
    pub fn run_now(&mut self, name: &str, now: Time) -> Option<Due> {
        let job = self.jobs.get_mut(name)?;
        job.running += 1;
        job.last_run = Some(now.wall);
        Some(Due {
            name: name.to_owned(),
            entry: Arc::clone(&job.entry),
            due: now.wall,
            late: Duration::ZERO,
            stands_for_more: false,
        })
    }

    /// Notes that a run of a job has ended.
    pub fn ended(&mut self, name: &str) {
        if let Some(job) = self.jobs.get_mut(name) {
            job.running = job.running.saturating_sub(1);
        } else if let Some(running) = self.leftover.get_mut(name) {
            *running = running.saturating_sub(1);
            if *running == 0 {
                self.leftover.remove(name);
            }
        }
    }

    /// Returns how long it takes until the next run is due, if the clock is not set meanwhile; none when nothing comes.
    pub fn wait(&self, now: Time) -> Option<Duration> {
        let jobs = self.jobs.values().filter(|job| job.enabled && self.enabled);
        jobs.filter_map(|job| job.wait(now)).min()
    }

    /// Whether a job goes by the wall clock, which may be set.
    pub fn goes_by_the_clock(&self) -> bool {
        let mut jobs = self.jobs.values().filter(|job| job.enabled && self.enabled);
        jobs.any(|job| matches!(job.next, Some(Next::Wall(..))))
    }

    /// Returns the names of the jobs, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.jobs.keys().map(String::as_str)
    }

    /// Returns the number of jobs.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether there is no job.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns where a job is; none if there is no such job.
    pub fn status(&self, name: &str, now: Time) -> Option<Status> {
        let job = self.jobs.get(name)?;
        let runs = job.enabled && self.enabled;
        Some(Status {
            entry: Arc::clone(&job.entry),
            enabled: job.enabled,
            next: runs.then(|| job.fires_at(now)).flatten(),
            last_run: job.last_run,
            running: job.running,
            skipped: job.skipped,
        })
    }

    /// Returns what is to be remembered of each job over a restart.
    pub fn remembered(&self) -> impl Iterator<Item = (&str, Remembered)> {
        self.jobs.iter().map(|(name, job)| {
            let remembered = Remembered {
                timing: job.entry.timing.to_string(),
                last_run: job.last_run,
                cursor: job.past.cursor,
                served: job.past.served.clone(),
            };
            (name.as_str(), remembered)
        })
    }
}

/// A due time that has come.
struct Fired {
    due: Timestamp,
    late: Duration,
    stands_for_more: bool,
}

impl Job {
    fn new(entry: Arc<Entry>, now: Timestamp) -> Self {
        Self {
            enabled: entry.enabled,
            entry,
            past: Past::new(now),
            last_run: None,
            next: None,
            running: 0,
            skipped: None,
        }
    }

    /// Returns how long a job with an interval waits at a start, and when it was due before that and does not run.
    fn wait_at_start(
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
    fn begin(&mut self, zone: &TimeZone, delays: &mut Delays, now: Time) {
        match self.entry.timing {
            Timing::Every(interval) => {
                let due = now.elapsed.saturating_add(interval);
                self.next = Some(Next::Elapsed(due, delays.of(&self.entry)));
            }
            Timing::Clock(_) => self.aim(zone, delays),
        }
    }

    /// Chooses the next due time of the wall clock.
    fn aim(&mut self, zone: &TimeZone, delays: &mut Delays) {
        let Timing::Clock(timing) = &self.entry.timing else {
            return;
        };
        let next = self.past.next(timing, zone, self.entry.not_before(zone));
        let next = next.filter(|next| !self.entry.is_over(next.due, zone));
        self.next = next.map(|next| Next::Wall(next, delays.of(&self.entry)));
    }

    /// Serves the due time that has come at `now`, and chooses the next one.
    fn fire(&mut self, zone: &TimeZone, delays: &mut Delays, now: Time) -> Option<Fired> {
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

    fn wait(&self, now: Time) -> Option<Duration> {
        Some(match self.next? {
            Next::Elapsed(due, delay) => due.saturating_add(delay).saturating_sub(now.elapsed),
            Next::Wall(next, delay) => since(now.wall, later(next.due, delay)),
        })
    }

    fn fires_at(&self, now: Time) -> Option<Timestamp> {
        Some(match self.next? {
            Next::Elapsed(..) => later(now.wall, self.wait(now)?),
            Next::Wall(next, delay) => later(next.due, delay),
        })
    }
}
