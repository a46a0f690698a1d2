//! The job store: jobs, the states of their minions, and returns. It is the truth about every job;
//! events only report its changes.
//!
//! Jobs and returns are in SQLite, one file for each span of time (`tables`, in files of `crate::disk`); the jobs that are
//! under way are in memory too (`memory`). Every job and every return that was acknowledged has
//! been committed and synced to the disk. Other changes of a state are written every second, and those that minions report
//! again after a crash every fifteen ([`flush_due`](JobStore::flush_due)). One thread does all writing, and
//! commits whatever is queued at once; another one reads, and a third one moves logs into their files,
//! copies and checks.

mod backup;
mod batches;
mod cancel;
mod catch_up;
mod check;
mod flush;
mod followers;
mod health;
mod job_functions;
mod large_returns;
mod lookup;
pub(crate) mod memory;
mod minion_keys;
mod minion_records;
mod prune;
mod publish;
mod received;
mod reconcile;
mod request_log;
mod returns;
mod runs;
mod search;
mod secrets;
mod set_back;
mod state_changes;
pub(crate) mod store_size;
pub(crate) mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod withdraw_unfollowed;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use saline_messages::{Jid, MasterTime, MinionId, RequestId};

pub use backup::StoreBackup;
pub use batches::{BatchProgress, BatchReport, BatchStep, BatchStop};
pub use check::StoreCheck;
pub(crate) use followers::{ReceiptFollower, WantsReceived};
pub use job_functions::JobFunction;
pub use large_returns::PartOutcome;
pub use lookup::JobStates;
pub use memory::minion_record::MinionRecord;
pub use memory::open_jobs::ActiveJob;
pub use memory::states::may_become;
pub use prune::Pruned;
pub use publish::NewJob;
pub(crate) use received::{Received, ReceivedKind, ReceivedQuery};
pub use reconcile::{Lineage, ReconcilingStart, StateChange};
pub use request_log::{BegunRequest, CarriedOut, REQUESTS_KEPT, RequestBegin};
pub use returns::BatchFailures;
pub use runs::{StoredRun, StoredRunEnd};
pub(crate) use search::listed_arguments;
pub use search::{FoundJob, FoundJobs, JobSearch};
pub use set_back::SetBackError;

use job_functions::RecentFunctions;
use memory::open_jobs::OpenJobs;
use memory::receipts::ReceiptSource;
use memory::transfers::{TransferLimits, Transfers};
use minion_records::{MinionRecords, RecordCopies};
use request_log::{LogEntry, RequestLog};
use secrets::StoredSecrets;
use tables::heard_heartbeats::HeardHeartbeats;
use tables::minions::CopyMade;
use tables::schema::JOBS;
use tables::{minion_states, return_parts};

use tokio::sync::{Notify, Semaphore};

use crate::clock::MasterClock;
pub use crate::disk::StoreError;
use crate::disk::connection_thread::ConnectionThread;
use crate::disk::file::{self, Access};
use crate::disk::partitions::{Connections, Partitions};
use crate::disk::writer::{PartitionLimits, Writer};
use crate::disk::{damaged, reserve};
pub use crate::jid::JidError;
use crate::jid::{self, JidSource};

/// The number of partitions that hold the jobs of the time for which jobs are kept.
const PARTITIONS: u32 = 24;

/// The shortest and the longest span of a partition.
const SPANS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(30 * 24 * 3600));

/// How far the master's time goes on after a copy of the store that was made at a later clock, in milliseconds: its jids must
/// be none that the master gave after it had made the copy.
const AFTER_COPY: MasterTime = 3_600_000;

/// By how much the clock must be behind the store for a warning, in milliseconds.
const NOTICED: MasterTime = 2_000;

/// How far the clock may be ahead of the newest entry of the store at a start before an operator is asked to look, in
/// milliseconds: a day.
const CREDIBLE: MasterTime = 24 * 3_600 * 1_000;

/// The folder of a job store, and its limits.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// The folder of its files.
    pub folder: PathBuf,
    /// The file with the key of stored secrets, which is created (0600) as needed.
    pub secrets_key: PathBuf,
    /// How long jobs are kept.
    pub keep: Duration,
    /// The size in bytes from which the oldest jobs are removed earlier; none for no such size.
    pub max_bytes: Option<u64>,
    /// The largest payload of a return, in bytes.
    pub largest_payload: u64,
    /// How often minions speak.
    pub heartbeat: Duration,
    /// The cache of the connection that writes to a file, in bytes. One that reads has a quarter of it.
    pub cache_bytes: usize,
}

impl StoreSettings {
    /// Returns what returns may have that are not whole: sixteen of the largest, but a quarter of the store, unless two
    /// would not fit.
    fn transfer_limits(&self) -> TransferLimits {
        let largest = self.largest_payload;
        let quarter = self.max_bytes.unwrap_or(u64::MAX) / 4;
        let most = largest.saturating_mul(16).min(quarter);
        TransferLimits {
            largest,
            most: most.max(largest.saturating_mul(2)),
        }
    }
}

/// The job store. Every method may be called from any task at once.
///
/// Dropping the store finishes the queued work and joins its threads, which blocks;
/// [`close`](Self::close) does the same without blocking a runtime.
pub struct JobStore {
    clock: MasterClock,
    settings: StoreSettings,
    jids: Mutex<JidSource>,
    receipts: Arc<ReceiptSource>,
    transfers: Arc<Mutex<Transfers>>,
    secrets: Arc<StoredSecrets>,
    open: Arc<Mutex<OpenJobs>>,
    counts: Arc<health::StoreCounts>,
    /// Notified when a step of the batches may come to something.
    batch_changed: Arc<Notify>,
    /// Wakes whoever waits for a minion's state in a job to change.
    state_changed: Arc<Notify>,
    request_log: Arc<Mutex<RequestLog>>,
    records: Arc<MinionRecords>,
    /// The functions and arguments of the jobs whose returns come in.
    calls: Mutex<RecentFunctions>,
    partitions: Arc<Partitions>,
    /// The last state that the last [`flush`](Self::flush) wrote, if more follow.
    flushed: Mutex<Option<(i64, MinionId)>>,
    /// Has one permit, for the flush that is under way.
    flushing: Semaphore,
    /// Whether the clock was far ahead of the store's newest entry at the start, or far behind it.
    is_in_doubt: bool,
    /// The turn of the copy that is made.
    copying: Semaphore,
    passes: Mutex<flush::Passes>,
    /// The passes over the states by which jobs were handed over.
    hand_overs: Mutex<flush::Passes>,
    /// The records that are written after all states that changed before them.
    unwritten_records: Mutex<RecordCopies>,
    /// When all records were written last.
    records_written: Mutex<MasterTime>,
    /// The partitions that were pruned and could not be deleted.
    undeleted: Mutex<Vec<i64>>,
    followers: followers::Followers,
    reader: ConnectionThread,
    writer: Writer,
    /// Dropped after the writer, which gives it work. The last connection to close empties the log.
    upkeep: ConnectionThread,
}

impl JobStore {
    /// Opens the store in its folder; creates what is missing: the folder (0700), a first file (0600) and
    /// its tables. Reads the jobs that are under way. Blocks on the disk, so for the start of a daemon.
    ///
    /// # Errors
    /// When a file cannot be opened, is no store, or was written by a later version.
    pub fn open(settings: StoreSettings, clock: MasterClock) -> Result<Self, StoreError> {
        let folder = settings.folder.clone();
        let opened = match Self::open_sound(settings.clone(), clock.clone()) {
            Err(StoreError::Full) if reserve::give_up(&folder) => {
                tracing::warn!(
                    "the disk of the job store is full: it is opened with what was reserved"
                );
                return Self::open_sound(settings, clock);
            }
            opened => opened?,
        };
        let opened = opened.set_back_if_ordered()?;
        reserve::keep(&folder);
        Ok(opened)
    }

    /// Opens the store, without one file that is damaged: it is set aside. The newest file is not, since jids and receipts
    /// go on after what is in it; nor is a second one while the first is there, since a disk that spoils several files
    /// needs an operator.
    fn open_sound(settings: StoreSettings, clock: MasterClock) -> Result<Self, StoreError> {
        let folder = settings.folder.clone();
        let error = match Self::try_open(settings.clone(), clock.clone()) {
            Err(error) if damaged::is_damage(&error) => error,
            opened => return opened,
        };
        let (StoreError::UnreadableFile { path, .. } | StoreError::Open { path, .. }) = &error
        else {
            return Err(error);
        };
        let partitions = Partitions::list(&folder, JOBS, settings.cache_bytes)?;
        let older = partitions.all().into_iter().rev().skip(1);
        let is_older = older
            .map(|start| partitions.path(start))
            .any(|older| older == *path);
        let one_is_aside =
            damaged::holds_one(&folder).map_err(|error| StoreError::io(&folder, error))?;
        if !is_older || one_is_aside {
            return Err(error);
        }
        let aside = damaged::set_aside(path).map_err(|error| StoreError::io(path, error))?;
        tracing::error!(
            "the file {} of the store is damaged ({error}): it was set aside as {}. The master goes on without the jobs and \
             returns in it: put a sound copy in its place and start again, or remove it",
            path.display(),
            aside.display()
        );
        Self::try_open(settings, clock)
    }

    fn try_open(settings: StoreSettings, clock: MasterClock) -> Result<Self, StoreError> {
        let partitions = Arc::new(Partitions::list(
            &settings.folder,
            JOBS,
            settings.cache_bytes,
        )?);
        let records = Arc::new(MinionRecords::open(&settings.folder)?);
        let secrets = Arc::new(StoredSecrets::open(&settings.secrets_key)?);
        let Resumed {
            latest,
            now,
            is_in_doubt,
            is_new_copy,
        } = resume(&clock, &partitions, &records, settings.cache_bytes)?;
        let mut expired_until = latest;
        let mut jids = JidSource::default();
        let mut receipts = 0;
        let mut transfers = Transfers::new(settings.transfer_limits());
        let mut open = OpenJobs::default();
        let mut request_log = RequestLog::default();
        let mut heard = HeardHeartbeats::new();
        for start in partitions.all() {
            jids.rise_above(start.saturating_sub(1));
            let path = partitions.path(start);
            let mut read = || {
                let connection = file::open(&path, Access::Write, settings.cache_bytes, &JOBS)?;
                jids.rise_above(lookup::last_job(&connection)?.unwrap_or(0));
                receipts = receipts.max(received::last_receipt(&connection)?);
                for stored in return_parts::settle(&connection)? {
                    transfers.take_up(start, stored, clock.clock().now());
                }
                minion_states::settle(&connection)?;
                expired_until = expired_until.max(lookup::last_expiry(&connection, now)?);
                transfers.go_on_after(return_parts::last(&connection)?);
                secrets.note_all(&connection)?;
                let grace = batches::grace(settings.heartbeat);
                records.look(|records| {
                    publish::read_open(&connection, now, grace, records, &mut open, &mut heard)
                })?;
                for (at, request, entry) in request_log::read(&connection, now)? {
                    // The first effect of a request stands.
                    let _ = request_log.begin(request, entry, at);
                }
                Ok(())
            };
            read().map_err(|error: StoreError| error.of_file(&path))?;
        }
        records.take_heartbeats_heard(heard);
        if is_new_copy || expired_until > latest {
            // What was queued and has expired is not offered again, whatever clock the next start finds; nor is that start
            // behind this one, where the store is a copy.
            minion_records::note_start(&settings.folder, expired_until)?;
        }
        if partitions.newest().is_none() {
            let first = jids.next_number(clock.micros());
            partitions.create(first)?;
        }
        let span = PartitionLimits {
            time: (settings.keep / PARTITIONS).clamp(SPANS.0, SPANS.1),
            bytes: settings.max_bytes.unwrap_or(u64::MAX) / u64::from(PARTITIONS),
        };
        let connections = |access| Connections::new(Arc::clone(&partitions), access);
        let started = |error| StoreError::io(&settings.folder, error);
        let upkeep = ConnectionThread::start("saline-upkeep", connections(Access::Upkeep))
            .map_err(started)?;
        let writer = Writer::start(
            connections(Access::Write),
            jids.last(),
            span,
            upkeep.0.try_sender(),
        );
        Ok(Self {
            jids: Mutex::new(jids),
            receipts: Arc::new(ReceiptSource::after(receipts, clock.clone())),
            transfers: Arc::new(Mutex::new(transfers)),
            secrets,
            clock,
            records,
            counts: Arc::default(),
            calls: Mutex::default(),
            passes: Mutex::default(),
            hand_overs: Mutex::default(),
            unwritten_records: Mutex::default(),
            records_written: Mutex::default(),
            batch_changed: open.batch_changed(),
            state_changed: open.state_changed(),
            open: Arc::new(Mutex::new(open)),
            request_log: Arc::new(Mutex::new(request_log)),
            reader: ConnectionThread::start("saline-reader", connections(Access::Read))
                .map_err(started)?,
            writer: writer.map_err(started)?,
            upkeep,
            partitions,
            flushed: Mutex::default(),
            flushing: Semaphore::new(1),
            is_in_doubt,
            copying: Semaphore::new(1),
            undeleted: Mutex::default(),
            followers: Mutex::default(),
            settings,
        })
    }

    /// Writes the states that changed, finishes the queued work, refuses later calls with
    /// [`StoreError::Closed`], and ends the threads.
    ///
    /// # Cancel safety
    /// The threads end by themselves when the future is dropped.
    pub async fn close(&self) {
        *lock(&self.records_written) = 0;
        match self.flush_all().await {
            // It was closed before.
            Ok(()) | Err(StoreError::Closed) => {}
            Err(error) => tracing::error!("the states of jobs were not written: {error}"),
        }
        self.records.close().await;
        self.reader.0.close().await;
        self.upkeep.0.close().await;
        self.writer.close().await;
    }

    /// Returns whether the clock was more than a day ahead of the store's newest entry at the start, or behind it: the
    /// clock is or was wrong, or the master was off.
    pub fn started_in_doubt(&self) -> bool {
        self.is_in_doubt
    }

    /// Returns a new jid: the time, or one above the highest jid so far.
    pub fn next_jid(&self) -> Jid {
        lock(&self.jids).next(self.clock.micros())
    }

    /// Returns the jid for the job of a request: that of the job which it published before, the one that an operator
    /// chose, or a new one. No later jid is below it.
    ///
    /// # Errors
    /// When a chosen jid is not above all others (except when the same request is repeated, also before its job is
    /// stored), or is more than a minute before the master's time, or a second ahead of it.
    pub fn jid_for(&self, request: RequestId, chosen: Option<Jid>) -> Result<Jid, JidError> {
        // A master before this one may have stored the job.
        if let Some(LogEntry::Job(job)) = lock(&self.request_log).find(request) {
            return Ok(jid::from_micros(*job));
        }
        match chosen {
            Some(chosen) => lock(&self.jids).reserve(chosen, request, self.clock.micros()),
            None => Ok(self.next_jid()),
        }
    }

    /// Returns what wakes all waiters when the state of any minion in any job has changed.
    pub fn state_changed(&self) -> &Notify {
        &self.state_changed
    }

    /// Returns the jobs that minions run, the oldest first.
    pub fn active(&self) -> Vec<ActiveJob> {
        lock(&self.open).active()
    }

    /// Returns the jobs that minions may still begin or run, the oldest first.
    pub(crate) fn jids_under_way(&self) -> Vec<Jid> {
        lock(&self.open).jids_under_way()
    }

    /// Returns the master's time, which the store notes with what it writes.
    fn now(&self) -> MasterTime {
        self.clock.now()
    }

    /// Runs `act` on the reader's thread, at one moment of the partition that holds the job. Returns none
    /// when the job cannot be in the store.
    async fn read<T, F>(&self, job: i64, act: F) -> Result<Option<T>, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<Option<T>, StoreError> + Send + 'static,
    {
        let Some(start) = self.partitions.holding(job) else {
            return Ok(None);
        };
        match self.reader.moment(start, act).await {
            // It was pruned meanwhile.
            Err(StoreError::Removed) => Ok(None),
            read => read,
        }
    }
}

/// The times at which a store is opened.
struct Resumed {
    /// The latest time in the store.
    latest: MasterTime,
    /// The master's time.
    now: MasterTime,
    /// Whether the clock is far ahead of the time in the store, or far behind it.
    is_in_doubt: bool,
    /// Whether the store is a copy with which no master has started.
    is_new_copy: bool,
}

/// Returns a time that the master which made a copy has not reached: as far ahead of the machine's clock, which is `wall`, as
/// its time was then. Where the clock was set back since, nothing tells how much time has passed.
fn first_after(made: CopyMade, wall: MasterTime) -> MasterTime {
    match made.at.saturating_sub(made.ahead) {
        then if wall <= then => made.at.saturating_add(AFTER_COPY),
        _ if made.ahead > 0 => wall.saturating_add(made.ahead),
        _ => 0,
    }
}

/// Has the master's time go on after the times in the store.
fn resume(
    clock: &MasterClock,
    partitions: &Partitions,
    records: &MinionRecords,
    cache: usize,
) -> Result<Resumed, StoreError> {
    let mut latest = i64::try_from(records.latest())
        .unwrap_or(i64::MAX)
        .saturating_mul(1_000);
    if let Some(newest) = partitions.newest() {
        let path = partitions.path(newest);
        let read = || {
            let connection = file::open(&path, Access::Write, cache, &JOBS)?;
            let last_job = lookup::last_job(&connection)?.unwrap_or(0);
            Ok(last_job.max(received::last_receipt(&connection)?))
        };
        let last = read().map_err(|error: StoreError| error.of_file(&path))?;
        latest = latest.max(newest).max(last);
    }
    let mut latest = MasterTime::try_from(latest / 1_000).unwrap_or(0);
    let copy = records.copy();
    if let Some(made) = copy {
        // The time is ahead of the clock where a file was set aside, and the store is opened once more.
        let wall = clock.now().saturating_sub(clock.ahead());
        latest = latest.max(first_after(made, wall));
    }
    let behind = clock.rise_above(latest);
    let is_far_behind = behind > CREDIBLE;
    if behind > NOTICED {
        let (behind, by_when) = match is_far_behind {
            false => (format!("{} s", behind / 1_000), ""),
            true => (
                format!("{} days", behind / CREDIBLE),
                ", before old jobs are removed in an hour",
            ),
        };
        tracing::warn!(
            "the clock of this machine is {behind} behind the newest entry of the job store; the master's time goes on from \
             there and is drawn to the clock slowly. If the clock is right, `saline-run clock.set_back` sets the time back{by_when}"
        );
    }
    let now = clock.now();
    let ahead = now.saturating_sub(latest);
    let is_ahead = latest > 0 && ahead > CREDIBLE;
    if is_ahead {
        tracing::warn!(
            "the clock of this machine is {} days ahead of the newest entry of the job store; old jobs are removed \
             in an hour: if the clock is wrong, stop the master before that and set it right",
            ahead / CREDIBLE
        );
    }
    Ok(Resumed {
        latest,
        now,
        is_in_doubt: is_ahead || is_far_behind,
        is_new_copy: copy.is_some(),
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is complete in one step, so a poisoned lock is still valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for JobStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobStore").finish_non_exhaustive()
    }
}
