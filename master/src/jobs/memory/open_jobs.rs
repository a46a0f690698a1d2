//! The minions that may begin a job or run it, in memory: what each minion may still begin, and what has to be written. A
//! state machine without a disk: [`JobStore`](crate::jobs::JobStore) feeds it what was committed, and writes what it
//! says has changed.
//!
//! A minion is here in a job from the job's publication until its state is final and the store has it, or until only the
//! disk and the minion's expiry ack are left to tell its state. A job is here as long as any of its minions is. Returns, expiries by
//! the clock and the expiry acks of minions are not written as states; every other change is, and is *unwritten* until
//! then.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use saline_messages::{Jid, MAX_RUNNING, MasterTime, MinionId, MinionJobState};
use tokio::sync::Notify;

mod batches;
mod changes;
mod endings;
mod jobs_of_minion;
mod unwritten;

use super::states::{States, may_become};
use crate::jid;
use crate::jobs::memory::batch_progress::BatchReport;

pub(crate) use batches::Recovered;
pub(crate) use unwritten::UnwrittenState;

use batches::OpenBatch;
use jobs_of_minion::{JobsOfMinion, note_open};
use unwritten::Unwritten;

/// How long an offer stays here after its expiry though its minion has not acknowledged it, in
/// milliseconds. Later the disk and the minion's expiry ack tell the same.
const ACK_AWAITED: MasterTime = 120_000;

/// The minions that may begin jobs or run them. A job is named by its jid in microseconds since 1970.
#[derive(Debug)]
pub(crate) struct OpenJobs {
    jobs: BTreeMap<i64, OpenJob>,
    /// The jobs in which each minion's state is not final.
    open: HashMap<MinionId, JobsOfMinion>,
    /// The jobs that a minion may still begin or has not acknowledged the expiry of, by the time at which that
    /// is looked at.
    expiries: BTreeSet<(MasterTime, i64)>,
    /// The jobs that were cancelled while they are here.
    cancelled: BTreeSet<i64>,
    /// The jobs with a state that is not written.
    changed: BTreeSet<i64>,
    /// The number of the minions of all jobs whose state is not final.
    offers: usize,
    /// The largest number of jobs that a minion runs at a time.
    most_running: usize,
    /// What a minion ran that was given up because it runs too much, until it is reported.
    given_up: Vec<(Jid, MinionId)>,
    /// The minions whose offers were withdrawn lately, and when.
    withdrawals: VecDeque<(MasterTime, MinionId)>,
    /// The jobs that are batches under way.
    batches: BTreeSet<i64>,
    /// Reports of batches that have ended and are not in the table any more.
    ended_batches: Vec<BatchReport>,
    /// Notified when a step of the batches may come to something.
    batch_changed: Arc<Notify>,
    /// Wakes whoever waits for a state to change.
    state_changed: Arc<Notify>,
    /// How often a minion's state in a job became each state, in the order of `MinionJobState::ALL`.
    changes: [u64; MinionJobState::ALL.len()],
}

/// A job that minions run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveJob {
    /// The jid of the job.
    pub jid: Jid,
    /// The minions that run it.
    pub running: Vec<MinionId>,
}

#[derive(Debug)]
struct OpenJob {
    expires: MasterTime,
    /// When it is looked at again, if it is among the `expiries`.
    looked_at: Option<MasterTime>,
    /// The minions whose state is not final.
    minions: BTreeMap<MinionId, OpenMinion>,
    /// The states that have to be written, final ones too.
    unwritten: Unwritten,
    /// When the job was published, or last reported as running.
    heard: MasterTime,
    /// The slots of the batch, if the job is a batch under way.
    batch: Option<Box<OpenBatch>>,
}

/// A minion whose state is not final.
#[derive(Debug, Clone, Copy)]
struct OpenMinion {
    state: MinionJobState,
    /// Whether the store has it among those that run the job, which a start reads.
    is_written_as_running: bool,
}

/// The result of looking up one minion in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MinionLookup {
    /// The minion's state is final and written, or the job was not published to it, or there is none: the disk tells.
    NotHere,
    /// The minion's state.
    State(MinionJobState),
}

/// The changes that the passing of time has made.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expiries {
    /// The offers that have expired.
    pub(crate) expired: Vec<(Jid, MinionId)>,
    /// The minions that have not acknowledged the expiry of a job in which they are not held here any more.
    pub(crate) unacked: Vec<MinionId>,
}

impl Default for OpenJobs {
    fn default() -> Self {
        Self::new(MAX_RUNNING)
    }
}

impl OpenJob {
    fn new(expires: MasterTime, heard: MasterTime) -> Self {
        Self {
            expires,
            looked_at: None,
            minions: BTreeMap::new(),
            unwritten: Unwritten::default(),
            heard,
            batch: None,
        }
    }

    /// Returns the state of a minion that is here.
    fn find(&self, minion: &MinionId) -> Option<MinionJobState> {
        match self.minions.get(minion) {
            Some(open) => Some(open.state),
            None => self.unwritten.get(minion),
        }
    }

    /// Whether the minion may begin the job, or claim it.
    fn may_begin(&self, minion: &MinionId) -> bool {
        self.find(minion).is_some_and(may_begin)
            && self
                .batch
                .as_ref()
                .is_none_or(|batch| batch.may_claim(minion))
    }

    /// Returns the minions whose state is one of these, none of which is final.
    fn minions_in(&self, which: impl Fn(MinionJobState) -> bool) -> Vec<MinionId> {
        let there = self.minions.iter().filter(|(_, open)| which(open.state));
        there.map(|(minion, _)| minion.clone()).collect()
    }

    fn is_over(&self) -> bool {
        self.minions.is_empty() && self.unwritten.is_empty()
    }
}

impl OpenJobs {
    /// Creates an empty table for minions that run at most `most_running` jobs at a time.
    pub(crate) fn new(most_running: usize) -> Self {
        Self {
            changes: [0; MinionJobState::ALL.len()],
            jobs: BTreeMap::new(),
            open: HashMap::new(),
            expiries: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            changed: BTreeSet::new(),
            offers: 0,
            most_running,
            given_up: Vec::new(),
            withdrawals: VecDeque::new(),
            batches: BTreeSet::new(),
            ended_batches: Vec::new(),
            batch_changed: Arc::default(),
            state_changed: Arc::default(),
        }
    }

    /// Adds a committed job that was published or heard of at `heard`, unless nobody may begin or runs
    /// it.
    pub(crate) fn insert(
        &mut self,
        job: i64,
        expires: MasterTime,
        states: States,
        heard: MasterTime,
    ) {
        self.remove(job);
        let mut opened = OpenJob::new(expires, heard);
        let open = states.into_iter().filter(|(_, state)| !state.is_final());
        let open = open.map(|(minion, state)| {
            let open = OpenMinion {
                state,
                is_written_as_running: false,
            };
            (minion, open)
        });
        opened.minions = open.collect();
        if opened.is_over() {
            return;
        }
        self.offers += opened.minions.len();
        if opened.minions.values().any(|open| may_begin(open.state)) {
            self.expiries.insert((expires, job));
            opened.looked_at = Some(expires);
        }
        for (minion, open) in &opened.minions {
            note_open(&mut self.open, minion, job, Some(open.state));
        }
        self.jobs.insert(job, opened);
    }

    /// Notes that the store has what a start has read: that these minions run the job.
    pub(crate) fn are_written_as_running(&mut self, job: i64) {
        for open in self
            .jobs
            .get_mut(&job)
            .into_iter()
            .flat_map(|job| job.minions.values_mut())
        {
            open.is_written_as_running = open.state == MinionJobState::Running;
        }
    }

    /// Adds a minion of which it was heard late that it runs a job, as the store has it by now.
    pub(crate) fn insert_late(
        &mut self,
        job: i64,
        expires: MasterTime,
        minion: &MinionId,
        now: MasterTime,
    ) {
        let opened = self.jobs.entry(job);
        let opened = opened.or_insert_with(|| OpenJob::new(expires, now));
        opened.heard = opened.heard.max(now);
        if opened.find(minion).is_some() {
            return;
        }
        let open = OpenMinion {
            state: MinionJobState::Running,
            is_written_as_running: true,
        };
        opened.minions.insert(minion.clone(), open);
        self.offers += 1;
        note_open(&mut self.open, minion, job, Some(open.state));
        if let Some(batch) = &mut opened.batch {
            batch.changed(minion, open.state, false, now);
            self.batch_changed.notify_one();
        }
        self.state_changed.notify_waiters();
        self.give_up_oldest(minion, now);
    }

    /// Returns what is notified when a step of the batches may come to something.
    pub(crate) fn batch_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.batch_changed)
    }

    /// Returns what wakes all waiters when the state of a minion has changed.
    pub(crate) fn state_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.state_changed)
    }

    /// Returns the jobs that minions run, the oldest first.
    pub(crate) fn active(&self) -> Vec<ActiveJob> {
        let running = |(number, job): (&i64, &OpenJob)| {
            let running = job.minions_in(|state| state == MinionJobState::Running);
            (!running.is_empty()).then(|| ActiveJob {
                jid: jid::from_micros(*number),
                running,
            })
        };
        self.jobs.iter().filter_map(running).collect()
    }

    /// Returns the jobs in which a minion's state is not final, the oldest first.
    pub(crate) fn jids_under_way(&self) -> Vec<Jid> {
        let open = self.jobs.iter().filter(|(_, job)| !job.minions.is_empty());
        open.map(|(number, _)| jid::from_micros(*number)).collect()
    }

    /// Returns the number of jobs in which a minion's state is not final.
    pub(crate) fn under_way(&self) -> usize {
        let open = self.jobs.values();
        open.filter(|job| !job.minions.is_empty()).count()
    }

    /// Returns how often the state of a minion in an open job became this one since the start.
    pub(crate) fn changes_to(&self, state: MinionJobState) -> u64 {
        self.changes[state as usize]
    }

    /// Returns the number of the minions of all jobs whose state is not final.
    pub(crate) fn offers(&self) -> usize {
        self.offers
    }

    /// Whether the job is here.
    pub(crate) fn has(&self, job: i64) -> bool {
        self.jobs.contains_key(&job)
    }

    /// Returns what is known of the minion in the job.
    pub(crate) fn lookup(&self, job: i64, minion: &MinionId) -> MinionLookup {
        let found = self.jobs.get(&job).and_then(|job| job.find(minion));
        found.map_or(MinionLookup::NotHere, MinionLookup::State)
    }

    /// Returns the time until which minions may begin a job that is here.
    pub(crate) fn expires(&self, job: i64) -> Option<MasterTime> {
        self.jobs.get(&job).map(|job| job.expires)
    }

    /// Returns the states of the minions after `after` that are here in a job, at most `most`, by id.
    pub(crate) fn states_here(&self, job: i64, after: Option<&MinionId>, most: usize) -> States {
        let Some(opened) = self.jobs.get(&job) else {
            return States::new();
        };
        let later = |minion: &MinionId| after.is_none_or(|after| minion > after);
        let open = opened.minions.iter();
        let open = open.map(|(minion, open)| (minion.clone(), open.state));
        let open = open.filter(|(minion, _)| later(minion)).take(most);
        let mut here: BTreeMap<_, _> = open.collect();
        for (minion, state) in opened
            .unwritten
            .iter()
            .filter(|(minion, _)| later(minion))
            .take(most)
        {
            here.entry(minion.clone()).or_insert(state);
        }
        here.into_iter().take(most).collect()
    }

    /// Whether the job is here and was cancelled.
    pub(crate) fn is_cancelled(&self, job: i64) -> bool {
        self.cancelled.contains(&job)
    }

    /// Returns the jobs in the range that may still begin at `now`, or were reported as running since `since`.
    pub(crate) fn alive(&self, range: Range<i64>, now: MasterTime, since: MasterTime) -> Vec<i64> {
        let runs = |job: &OpenJob| {
            let mut minions = job.minions.values();
            job.heard >= since && minions.any(|open| open.state == MinionJobState::Running)
        };
        let jobs = self.jobs.range(range);
        let alive = jobs.filter(|(_, job)| job.expires > now || runs(job));
        alive.map(|(number, _)| *number).collect()
    }

    /// Forgets the jobs in the range but those of `kept`, which are in their order.
    pub(crate) fn forget(&mut self, range: Range<i64>, kept: &[i64]) {
        let jobs = self.jobs.range(range).map(|(job, _)| *job);
        let gone: Vec<i64> = jobs
            .filter(|job| kept.binary_search(job).is_err())
            .collect();
        for job in gone {
            self.remove(job);
        }
    }

    fn leave_if_over(&mut self, job: i64) {
        if self.jobs.get(&job).is_some_and(OpenJob::is_over) {
            self.remove(job);
        }
    }

    fn remove(&mut self, job: i64) {
        let Some(gone) = self.jobs.remove(&job) else {
            return;
        };
        self.offers -= gone.minions.len();
        if let Some(at) = gone.looked_at {
            self.expiries.remove(&(at, job));
        }
        self.changed.remove(&job);
        self.cancelled.remove(&job);
        for minion in gone.minions.keys() {
            note_open(&mut self.open, minion, job, None);
        }
        self.batch_left(job, gone);
    }
}

/// Whether a minion in this state may still begin.
fn may_begin(state: MinionJobState) -> bool {
    state == MinionJobState::Offered || is_to_be_offered(state)
}

/// Whether the job was not handed over to a minion in this state, and may be.
fn is_to_be_offered(state: MinionJobState) -> bool {
    matches!(state, MinionJobState::Queued | MinionJobState::Waiting)
}

#[cfg(test)]
mod tests;
