//! Drives a schedule by the clock of a daemon, and changes it for those who ask.
//!
//! The run of a job is on the disk before it begins, unless its interval is shorter than a minute: after a crash no due
//! time is served again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use saline_data::time_span;
use saline_protocol::transport::{Clock, Context, Instant};
use tokio::sync::Notify;

use crate::entry::{Entry, MAX_ENTRIES};
use crate::exceptions::Exceptions;
use crate::run_memory::RunMemory;
use crate::runs::{Due, Missed, Polled, Skip, Status, Time};
use crate::saved_jobs::{SavedFile, SavedJobs};
use crate::schedule::Schedule;
use crate::scheduler_state::{ChangeError, Files, LaterJobs, MAX_ORDERED, State, to_map};
use crate::skip_reason::SkipReason;
use crate::timing::Timing;

/// How often the wall clock is looked at: it may be set at any time.
const CLOCK_CHECK: Duration = Duration::from_secs(10);

/// The longest time without a look at the schedule.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// How often the runs of jobs are noted whose interval is shorter than this.
const SHORT: Duration = Duration::from_secs(60);

/// A run that is later than this is told.
const LATE: Duration = Duration::from_secs(2);

/// The files of a schedule.
#[derive(Debug, Clone)]
pub struct SchedulerFiles {
    /// Remembers when jobs ran.
    pub runs: PathBuf,
    /// Keeps what functions change; none for a daemon without such functions.
    pub saved: Option<PathBuf>,
    /// Whether a pillar may bring further jobs: what is remembered of them is kept until it is there.
    pub awaits_pillar: bool,
}

/// The schedule of a daemon.
#[derive(Debug)]
pub struct Scheduler {
    clock: Clock,
    began: Instant,
    // Locked before the state, always.
    files: Mutex<Files>,
    state: Mutex<State>,
    pub(crate) changed: Notify,
    runs: AtomicU64,
    skips: AtomicU64,
}

/// Counts as a run that is under way until it is dropped.
#[derive(Debug)]
pub struct RunGuard {
    scheduler: Arc<Scheduler>,
    name: String,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.scheduler.state().schedule.ended(&self.name);
    }
}

impl Scheduler {
    /// Reads the files, and starts every job. Blocks on the disk. `seed` makes the delays of machines differ.
    pub fn open(
        files: SchedulerFiles,
        configured: Vec<(String, Entry)>,
        missed: Missed,
        seed: u64,
        clock: Clock,
    ) -> Self {
        let (memory, mut remembered) = RunMemory::open(files.runs);
        let awaits_pillar = files.awaits_pillar;
        let saved_file = files.saved.map(SavedFile);
        let saved = saved_file.as_ref().map(SavedFile::read).unwrap_or_default();
        let began = clock.now();
        let scheduler = Self {
            clock,
            began,
            files: Mutex::new(Files {
                memory,
                saved: saved_file,
                on_disk: saved.clone(),
            }),
            state: Mutex::new(State {
                schedule: Schedule::new(TimeZone::system(), seed),
                of_pillar: BTreeMap::new(),
                later: None,
                configured: to_map(configured),
                saved,
                ordered: Vec::new(),
                noted: began,
                is_unnoted: false,
                is_new: true,
            }),
            changed: Notify::new(),
            runs: AtomicU64::new(0),
            skips: AtomicU64::new(0),
        };
        let now = scheduler.time();
        let mut skipped = Vec::new();
        {
            let mut state = scheduler.state();
            let all_disabled = state.saved.all_disabled;
            state.schedule.enable(!all_disabled, now);
            for (name, entry) in state.wanted() {
                let before = remembered.remove(&name);
                let skip = state.schedule.start(&name, entry, before, missed, now);
                skipped.extend(skip.map(|skip| (name, skip)));
            }
            state.disable_named(now);
            state.later = awaits_pillar.then_some(LaterJobs { remembered, missed });
        }
        scheduler.tell_skipped(&skipped);
        scheduler
    }

    /// Counts runs that were missed, and says which in the log.
    pub(crate) fn tell_skipped(&self, skipped: &[(String, Skip)]) {
        self.skips
            .fetch_add(skipped.len() as u64, Ordering::Relaxed);
        for (name, skip) in skipped {
            tracing::warn!(
                "scheduled job {name} did not run at {}: {}",
                skip.due,
                skip.reason
            );
        }
    }

    /// Begins runs with `begin` when they are due, for as long as the daemon runs.
    ///
    /// # Cancel safety
    /// A run that is due when the future is dropped has begun or counts as served.
    pub async fn run(self: Arc<Self>, context: Context, begin: impl Fn(Due, RunGuard)) {
        loop {
            let this = Arc::clone(&self);
            let Ok(due) = context.spawn_blocking(move || this.take_due()).await else {
                // The runtime is going down.
                return;
            };
            for due in due {
                let guard = RunGuard {
                    scheduler: Arc::clone(&self),
                    name: due.name.clone(),
                };
                begin(due, guard);
            }
            let wait = self.wait();
            tokio::select! {
                () = self.clock.pause(wait) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    /// Counts a run of a job, which the daemon began before it was started again, as under way.
    pub fn take_over(self: &Arc<Self>, name: &str) -> RunGuard {
        self.state().schedule.take_over(name);
        RunGuard {
            scheduler: Arc::clone(self),
            name: name.to_owned(),
        }
    }

    /// Notes what ran. Blocks on the disk. To be called when the daemon stops.
    pub fn stop(&self) {
        self.note();
    }

    /// Takes over the jobs of configuration files that were read again, and the time zone of the machine.
    pub fn set_configured(&self, configured: Vec<(String, Entry)>) {
        let now = self.time();
        let mut state = self.state();
        state.configured = to_map(configured);
        state.schedule.set_zone(TimeZone::system());
        state.refresh(now);
        drop(state);
        self.changed.notify_one();
    }

    /// Adds a job; it is saved if `persist`.
    ///
    /// # Errors
    /// When there is one of this name, or it cannot be saved.
    pub fn add(&self, name: &str, entry: Entry, persist: bool) -> Result<(), ChangeError> {
        self.check_add(name)?;
        let entry = Arc::new(entry);
        self.change(persist, |saved| {
            saved.jobs.insert(name.to_owned(), Arc::clone(&entry));
            saved.disabled.remove(name);
        })
    }

    /// Checks that a job can be added.
    ///
    /// # Errors
    /// When there is one of this name, or there are too many.
    pub fn check_add(&self, name: &str) -> Result<(), ChangeError> {
        let state = self.state();
        if state.has(name) {
            return Err(ChangeError::Exists(name.to_owned()));
        }
        match state.schedule.len() >= MAX_ENTRIES {
            true => Err(ChangeError::TooMany),
            false => Ok(()),
        }
    }

    /// Puts a job in the place of the one of this name; it is saved if `persist`.
    ///
    /// # Errors
    /// When there is none of this name, it is in the configuration, or it cannot be saved.
    pub fn modify(&self, name: &str, entry: Entry, persist: bool) -> Result<(), ChangeError> {
        self.check_changeable(name)?;
        let entry = Arc::new(entry);
        self.change(persist, |saved| {
            saved.jobs.insert(name.to_owned(), Arc::clone(&entry));
        })
    }

    /// Checks that a job can be modified or deleted.
    ///
    /// # Errors
    /// When there is none of this name, or it is in the configuration or in the pillar.
    pub fn check_changeable(&self, name: &str) -> Result<(), ChangeError> {
        let state = self.state();
        if state.saved.jobs.contains_key(name) {
            return Ok(());
        }
        if state.configured.contains_key(name) {
            return Err(ChangeError::Configured(name.to_owned()));
        }
        match state.of_pillar.contains_key(name) {
            true => Err(ChangeError::OfPillar(name.to_owned())),
            false => Err(ChangeError::NoSuchJob(name.to_owned())),
        }
    }

    /// Deletes a job.
    ///
    /// # Errors
    /// When there is none of this name, it is in the configuration, or the change cannot be saved.
    pub fn delete(&self, name: &str, persist: bool) -> Result<(), ChangeError> {
        self.check_changeable(name)?;
        self.change(persist, |saved| {
            saved.jobs.remove(name);
            saved.disabled.remove(name);
        })
    }

    /// Has a job run by the clock, or not.
    ///
    /// # Errors
    /// When there is none of this name, or the change cannot be saved.
    pub fn enable_job(&self, name: &str, enabled: bool, persist: bool) -> Result<(), ChangeError> {
        if !self.state().has(name) {
            return Err(ChangeError::NoSuchJob(name.to_owned()));
        }
        self.change(persist, |saved| {
            match enabled {
                true => saved.disabled.remove(name),
                false => saved.disabled.insert(name.to_owned()),
            };
            if let Some(entry) = saved.jobs.get_mut(name)
                && enabled
                && !entry.enabled
            {
                *entry = Arc::new(entry.enabled());
            }
        })
    }

    /// Has all jobs run by the clock, or none.
    ///
    /// # Errors
    /// When the change cannot be saved.
    pub fn enable(&self, enabled: bool, persist: bool) -> Result<(), ChangeError> {
        self.change(persist, |saved| saved.all_disabled = !enabled)
    }

    /// Has a job run now.
    ///
    /// # Errors
    /// When there is no such job, or too many wait.
    pub fn run_job(&self, name: &str) -> Result<(), ChangeError> {
        let now = self.time();
        let mut state = self.state();
        if state.ordered.len() >= MAX_ORDERED {
            return Err(ChangeError::TooManyOrdered);
        }
        let due = state.schedule.run_now(name, now);
        let due = due.ok_or_else(|| ChangeError::NoSuchJob(name.to_owned()))?;
        state.ordered.push(due);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Has the run of a job that is due, or begins, in the second `at` not take place. It is noted on the disk.
    ///
    /// # Errors
    /// When there is no such job, the time is over, or there are too many of these.
    pub fn skip_job(&self, name: &str, at: Timestamp) -> Result<(), ChangeError> {
        self.check_exceptions(name, &[at])?;
        self.change_exceptions(name, |exceptions| exceptions.skip(at))
    }

    /// Has the run of a job that is due, or begins, in the second `at` take place at `instead`. It is noted on the disk.
    ///
    /// # Errors
    /// As [`skip_job`](Self::skip_job).
    pub fn postpone_job(
        &self,
        name: &str,
        at: Timestamp,
        instead: Timestamp,
    ) -> Result<(), ChangeError> {
        self.check_exceptions(name, &[at, instead])?;
        self.change_exceptions(name, |exceptions| {
            exceptions.skip(at) && exceptions.add(instead)
        })
    }

    /// Checks that something can be asked of runs of a job at these times.
    ///
    /// # Errors
    /// When there is no such job, or a time is over.
    pub fn check_exceptions(&self, name: &str, times: &[Timestamp]) -> Result<(), ChangeError> {
        if !self.state().has(name) {
            return Err(ChangeError::NoSuchJob(name.to_owned()));
        }
        let now = self.time().wall;
        match times.iter().find(|at| **at <= now) {
            Some(over) => Err(ChangeError::Over(*over)),
            None => Ok(()),
        }
    }

    fn change_exceptions(
        &self,
        name: &str,
        change: impl FnOnce(&mut Exceptions) -> bool,
    ) -> Result<(), ChangeError> {
        let mut state = self.state();
        let exceptions = state.schedule.exceptions(name);
        let exceptions = exceptions.ok_or_else(|| ChangeError::NoSuchJob(name.to_owned()))?;
        let mut changed = exceptions.clone();
        if !change(&mut changed) {
            return Err(ChangeError::TooManyExceptions(name.to_owned()));
        }
        *exceptions = changed;
        drop(state);
        self.note();
        self.changed.notify_one();
        Ok(())
    }

    /// Saves everything, also what was changed so that it is not saved.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn save(&self) -> Result<(), ChangeError> {
        let mut files = self.files();
        let saved = self.state().saved.clone();
        files.save(saved)
    }

    /// Forgets what is not saved, and reads the file again. Blocks on the disk.
    pub fn reload(&self) {
        let mut files = self.files();
        let Some(file) = &files.saved else { return };
        let saved = file.read();
        files.on_disk = saved.clone();
        let now = self.time();
        let mut state = self.state();
        state.saved = saved;
        state.refresh(now);
        drop(state);
        self.changed.notify_one();
    }

    /// Whether jobs run by the clock.
    pub fn is_enabled(&self) -> bool {
        self.state().schedule.is_enabled()
    }

    /// Returns the names of all jobs, in alphabetical order.
    pub fn names(&self) -> Vec<String> {
        self.state().schedule.names().map(str::to_owned).collect()
    }

    /// Whether a job with this entry would never run by the clock, since its times are over.
    pub fn is_over(&self, entry: &Entry) -> bool {
        let now = self.time();
        self.state().schedule.is_over(entry, now)
    }

    /// Returns where a job is; none if there is no such job.
    pub fn status(&self, name: &str) -> Option<Status> {
        self.state().schedule.status(name, self.time())
    }

    /// Whether a job is in the configuration, and not one that a function added.
    pub fn is_configured(&self, name: &str) -> bool {
        let state = self.state();
        state.configured.contains_key(name) && !state.saved.jobs.contains_key(name)
    }

    /// Returns the number of jobs.
    pub fn len(&self) -> usize {
        self.state().schedule.len()
    }

    /// Whether there is no job.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many runs were begun.
    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Returns how many runs were due and did not take place.
    pub fn skips(&self) -> u64 {
        self.skips.load(Ordering::Relaxed)
    }

    /// Makes a change: to what the file has as well if `persist`. When that cannot be saved nothing has changed.
    fn change(&self, persist: bool, change: impl Fn(&mut SavedJobs)) -> Result<(), ChangeError> {
        // Keeps the changes in their order. The state is not locked while the disk is written.
        let mut files = self.files();
        if persist {
            let mut to_save = files.on_disk.clone();
            change(&mut to_save);
            files.save(to_save)?;
        }
        let now = self.time();
        let mut state = self.state();
        change(&mut state.saved);
        state.refresh(now);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Returns the runs that are due now. They are noted on the disk.
    fn take_due(&self) -> Vec<Due> {
        let now = self.time();
        let mut state = self.state();
        let Polled {
            mut due,
            skipped,
            forgot,
        } = state.schedule.poll(now);
        due.append(&mut state.ordered);
        state.is_unnoted |= !due.is_empty();
        let is_short =
            |due: &Due| matches!(due.entry.timing, Timing::Every(every) if every < SHORT);
        let must_note = state.is_new
            || !due.iter().all(is_short)
            || (state.is_unnoted && self.clock.now() - state.noted >= SHORT);
        drop(state);
        for name in forgot {
            tracing::warn!(
                "the clock went back by more than a day: scheduled job {name} may run at times at which it ran already"
            );
        }
        self.skips
            .fetch_add(skipped.len() as u64, Ordering::Relaxed);
        for Skip { name, due, reason } in skipped {
            let line = format!("scheduled job {name} did not run at {due}: {reason}");
            match reason {
                // A run that takes too long needs somebody who looks at it; the others are as the job says.
                SkipReason::MaxRunning => tracing::warn!("{line}"),
                _ => tracing::info!("{line}"),
            }
        }
        if must_note {
            self.note();
        }
        self.runs.fetch_add(due.len() as u64, Ordering::Relaxed);
        for due in due
            .iter()
            .filter(|due| due.late > LATE || due.stands_for_more)
        {
            let more = match due.stands_for_more {
                true => ", and stands for further runs that were due meanwhile",
                false => "",
            };
            tracing::warn!(
                "scheduled job {} was due at {}: it is {} late{more}",
                due.name,
                due.due,
                time_span::write(Duration::from_secs(due.late.as_secs()))
            );
        }
        due
    }

    /// Writes down what ran.
    fn note(&self) {
        let mut files = self.files();
        let remembered: Vec<_> = {
            let mut state = self.state();
            (state.is_unnoted, state.is_new) = (false, false);
            state.noted = self.clock.now();
            let remembered = state.schedule.remembered();
            let later = state.later.iter().flat_map(|later| &later.remembered);
            let later = later.map(|(name, job)| (name.as_str(), job.clone()));
            remembered
                .chain(later)
                .map(|(name, job)| (name.to_owned(), job))
                .collect()
        };
        files.memory.write(&remembered);
    }

    /// Returns how long nothing is due.
    fn wait(&self) -> Duration {
        let now = self.time();
        let state = self.state();
        let most = match state.schedule.goes_by_the_clock() {
            true => CLOCK_CHECK,
            false => LONGEST_WAIT,
        };
        let wait = state.schedule.wait(now).unwrap_or(most);
        // At least the granularity of a timer.
        wait.clamp(Duration::from_millis(1), most)
    }

    pub(crate) fn time(&self) -> Time {
        Time {
            // The clock of a machine is within the years that are supported.
            wall: Timestamp::try_from(self.clock.wall()).unwrap_or(Timestamp::UNIX_EPOCH),
            elapsed: self.clock.now() - self.began,
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
