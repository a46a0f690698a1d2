//! What a schedule has in memory and in its files.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use saline_protocol::transport::Instant;

use crate::entry::{Entry, MAX_ENTRIES};
use crate::exceptions::MAX_EXCEPTIONS;
use crate::run_memory::RunMemory;
use crate::runs::{Due, Missed, Remembered, Time};
use crate::saved_jobs::{SavedFile, SavedJobs};
use crate::schedule::Schedule;

/// The most runs that were ordered and wait to begin.
pub(crate) const MAX_ORDERED: usize = 1_000;

/// Why a schedule was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// There is no such job.
    #[error("there is no job {0} in the schedule")]
    NoSuchJob(String),
    /// There is one already.
    #[error("there is a job {0} in the schedule already")]
    Exists(String),
    /// The job is in the configuration.
    #[error(
        "job {0} is in the configuration files, where it can be changed or removed; schedule.disable_job keeps it from running"
    )]
    Configured(String),
    /// The job is in the pillar.
    #[error(
        "job {0} is in the pillar, where it can be changed or removed; schedule.disable_job keeps it from running"
    )]
    OfPillar(String),
    /// There are too many.
    #[error("a schedule has at most {MAX_ENTRIES} jobs")]
    TooMany,
    /// Too many runs were ordered.
    #[error("{MAX_ORDERED} runs that were ordered wait to begin")]
    TooManyOrdered,
    /// What was asked of single runs of the job fills its list.
    #[error("{MAX_EXCEPTIONS} runs of job {0} are skipped or postponed already")]
    TooManyExceptions(String),
    /// The time is over.
    #[error("{0} is over; schedule.show_next_fire_time tells when the job runs next")]
    Over(Timestamp),
    /// The change cannot be saved; nothing has changed.
    #[error("the change cannot be saved, so nothing has changed: {0}")]
    Disk(#[from] io::Error),
}

/// The files of a schedule, and what one of them has.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) memory: RunMemory,
    pub(crate) saved: Option<SavedFile>,
    /// What the file of saved jobs has, which changes that are not to be saved leave alone.
    pub(crate) on_disk: SavedJobs,
}

/// What a start leaves for jobs that the pillar may bring.
#[derive(Debug)]
pub(crate) struct LaterJobs {
    /// What is remembered of jobs that are not there yet.
    pub(crate) remembered: BTreeMap<String, Remembered>,
    /// What becomes of runs that were due while the daemon was down.
    pub(crate) missed: Missed,
}

/// What a schedule has in memory.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) schedule: Schedule,
    /// The jobs of the pillar.
    pub(crate) of_pillar: BTreeMap<String, Arc<Entry>>,
    /// What waits for the first pillar.
    pub(crate) later: Option<LaterJobs>,
    /// The jobs of the configuration.
    pub(crate) configured: BTreeMap<String, Arc<Entry>>,
    /// What functions have changed, whether it is in the file or not.
    pub(crate) saved: SavedJobs,
    /// Runs that somebody ordered.
    pub(crate) ordered: Vec<Due>,
    /// When the runs were noted last.
    pub(crate) noted: Instant,
    /// Whether something ran that is not noted.
    pub(crate) is_unnoted: bool,
    /// Whether there are jobs of which nothing is noted yet.
    pub(crate) is_new: bool,
}

impl Files {
    /// Has the file, if there is one, hold `saved`.
    pub(crate) fn save(&mut self, saved: SavedJobs) -> Result<(), ChangeError> {
        if saved.jobs.len() > MAX_ENTRIES {
            return Err(ChangeError::TooMany);
        }
        if let Some(file) = &self.saved {
            file.write(&saved)?;
        }
        self.on_disk = saved;
        Ok(())
    }
}

impl State {
    /// Returns every job: a job that a function added goes before one of the configuration, and this one before one of the pillar.
    pub(crate) fn wanted(&self) -> BTreeMap<String, Arc<Entry>> {
        let mut wanted = self.of_pillar.clone();
        wanted.extend(self.configured.clone());
        wanted.extend(
            self.saved
                .jobs
                .iter()
                .map(|(name, entry)| (name.clone(), Arc::clone(entry))),
        );
        wanted
    }

    /// Whether there is a job of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.of_pillar.contains_key(name)
            || self.configured.contains_key(name)
            || self.saved.jobs.contains_key(name)
    }

    /// Has the schedule what is wanted.
    pub(crate) fn refresh(&mut self, now: Time) {
        self.is_new = true;
        let wanted = self.wanted();
        let gone: Vec<String> = self
            .schedule
            .names()
            .filter(|name| !wanted.contains_key(*name))
            .map(str::to_owned)
            .collect();
        for name in gone {
            self.schedule.remove(&name);
        }
        for (name, entry) in wanted {
            let is_same = self
                .schedule
                .status(&name, now)
                .is_some_and(|status| Arc::ptr_eq(&status.entry, &entry) || status.entry == entry);
            if !is_same {
                self.schedule.set(&name, entry, now);
            }
        }
        self.disable_named(now);
        self.schedule.enable(!self.saved.all_disabled, now);
    }

    /// Has the jobs not run by the clock that are disabled by name, and the others as they are written.
    pub(crate) fn disable_named(&mut self, now: Time) {
        for (name, entry) in self.wanted() {
            let enabled = entry.enabled && !self.saved.disabled.contains(&name);
            self.schedule.enable_job(&name, enabled, now);
        }
    }
}

/// Returns the jobs by their names.
pub(crate) fn to_map(jobs: Vec<(String, Entry)>) -> BTreeMap<String, Arc<Entry>> {
    jobs.into_iter()
        .map(|(name, entry)| (name, Arc::new(entry)))
        .collect()
}
