//! The state machine of a schedule. It takes the time and the ends of runs, and returns what is due: it has no clock, no task
//! and no file.
//!
//! Intervals are counted by the monotonic clock, which no administrator sets; `cron`, `when` and `once` go by the wall
//! clock. A due time is served once, also when the clock is set back and passes it again. When several due times have
//! passed at once, since the daemon or its machine was stopped, the job runs once for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::entry::Entry;
use crate::exceptions::Exceptions;
use crate::job::{Delays, Fired, Job, Next};
use crate::runs::{Due, Missed, Polled, Remembered, Skip, Status, Time};
use crate::skip_reason::SkipReason;
use crate::timing::Timing;

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
            job.exceptions = remembered.exceptions;
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
        if missed == Missed::Skip {
            let added = job.exceptions.take_added(now.wall);
            skip = skip.or(added.map(|(due, _)| due));
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

    /// Whether a job with this entry that is added at `now` never runs by the clock, since its times are over.
    pub fn is_over(&self, entry: &Entry, now: Time) -> bool {
        let mut job = Job::new(Arc::new(entry.clone()), now.wall);
        job.begin(&self.zone, &mut Delays(0), now);
        let first = job.fires_at(now);
        first.is_none_or(|first| entry.is_over(first, &self.zone))
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
            job.exceptions.take_added(now.wall);
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
            job.exceptions.take_added(now.wall);
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
            let fired = job.fire(&self.zone, &mut self.delays, now);
            let added = job.added(now);
            for (fired, asked) in fired.into_iter().chain(added) {
                let hindered = match job.running >= job.entry.maxrunning {
                    _ if asked.is_some() => asked,
                    true => Some(SkipReason::MaxRunning),
                    false => job.entry.hinders(now.wall, &self.zone),
                };
                let Fired {
                    due,
                    late,
                    stands_for_more,
                } = fired;
                let name = name.clone();
                match hindered {
                    Some(reason) => {
                        job.skipped = Some((due, reason));
                        polled.skipped.push(Skip { name, due, reason });
                    }
                    None => {
                        job.running += 1;
                        job.last_run = Some(now.wall);
                        polled.due.push(Due {
                            name,
                            entry: Arc::clone(&job.entry),
                            due,
                            late,
                            stands_for_more,
                        });
                    }
                }
            }
        }
        polled
    }

    /// Returns the exceptions of a job, which the caller may change; none if there is no such job.
    pub(crate) fn exceptions(&mut self, name: &str) -> Option<&mut Exceptions> {
        Some(&mut self.jobs.get_mut(name)?.exceptions)
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

    /// Notes that a run of a job is under way which the daemon began before it was started again.
    pub fn take_over(&mut self, name: &str) {
        match self.jobs.get_mut(name) {
            Some(job) => job.running += 1,
            None => *self.leftover.entry(name.to_owned()).or_default() += 1,
        }
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
        jobs.any(|job| matches!(job.next, Some(Next::Wall(..))) || job.exceptions.next().is_some())
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
                exceptions: job.exceptions.clone(),
            };
            (name.as_str(), remembered)
        })
    }
}
