//! The spool: the jobs that the minion began, and the returns that the master has not acknowledged.
//! One append-only file, whose records survive a crash of the process, and with `spool_sync: always`
//! a power loss.
//!
//! A job is noted as started before it runs, so it runs at most once: after a crash the minion
//! returns that it was interrupted. A return leaves the spool only when the master has it.

mod compaction;
mod file;
mod index;
mod record;
mod refused;
mod scheduled;
mod start_note;
mod starts;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use saline_data::{Packed, Value};
use saline_messages::{
    ExpiryAck, Jid, Job, Known, MasterTime, RETCODE_INTERRUPTED, Return, StartId,
};
use saline_modules::job_process::JobRecord;
use tokio::sync::Notify;

use crate::spool_location::SpoolLocation;
use file::{Condition, SpoolFile};
use index::{Index, SpooledJob};
use record::Record;
use start_note::StartNote;
use starts::StartsRead;

pub(crate) use index::LONGEST_EXPIRY;
pub use starts::Start;

/// The return of an interrupted run, after a restart as after a stop.
pub(crate) use saline_modules::INTERRUPTED;

/// The return for a run whose beginning survived a loss of power: the job may have ended, and its return been lost. It begins
/// with [`INTERRUPTED`], by which scripts and `saline-chaos` know both.
const INTERRUPTED_OR_LOST: &str = "The minion stopped while it ran this job, or the job ended and the return was lost: the \
     machine lost power, or the spool was damaged, emptied or put back";

/// The reason why a job may not begin.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// The job was begun before.
    #[error("this job was begun before")]
    Seen,
    /// The master was told that the job was not begun in time, or was cancelled.
    #[error("this job has expired or was cancelled")]
    Over,
    /// The spool cannot be written.
    #[error("cannot write to the spool: {0}")]
    Io(#[from] io::Error),
}

/// The spool. Its calls write to a disk and may block; [`is_seen`](Self::is_seen),
/// [`take_unsent`](Self::take_unsent) and [`in_memory`](Self::in_memory) do not.
#[derive(Debug)]
pub struct Spool {
    // Locked before the index, always.
    file: Mutex<SpoolFile>,
    index: Mutex<Index>,
    start: Mutex<Start>,
    place: SpoolLocation,
    /// The note of the start beside the identity, which outlives the spool.
    note: Option<StartNote>,
    returned: Notify,
    /// Notified when a job of the schedule returned.
    scheduled_returned: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is complete in one step, so a poisoned lock is still valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Spool {
    /// Reads the spool at `path`. Every job that was begun and did not return gets a return that
    /// says that it was interrupted. A damaged spool is copied, and what can be read of it is used.
    ///
    /// # Errors
    /// When the file exists and cannot be read, when somebody else could change it, or the system has no
    /// randomness.
    pub fn open(path: PathBuf, sync_always: bool) -> io::Result<Self> {
        Self::open_with(path, sync_always, None, &BTreeSet::new())
    }

    /// The same, of a minion whose identity is in the folder `identity`: what is noted there of the last start makes a
    /// start whose spool was emptied, or put back from a copy, the successor of that one. The jobs in `left` were not
    /// interrupted: their processes run, or have left returns.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_beside(
        path: PathBuf,
        sync_always: bool,
        identity: &Path,
        left: &BTreeSet<Jid>,
    ) -> io::Result<Self> {
        Self::open_with(path, sync_always, StartNote::take(identity), left)
    }

    fn open_with(
        path: PathBuf,
        sync_always: bool,
        note: Option<StartNote>,
        left: &BTreeSet<Jid>,
    ) -> io::Result<Self> {
        #[cfg(feature = "chaos")]
        if saline_daemon::sabotage::is_on("forget-spool") {
            // An error means that there was none.
            let _ = std::fs::remove_file(&path);
        }
        let folder = path.parent().map(ToOwned::to_owned);
        if let Some(folder) = &folder {
            saline_private_files::create_folder(folder)?;
        }
        let mut file = SpoolFile::new(path, sync_always);
        let mut index = Index::default();
        let mut starts = StartsRead::default();
        let mut interrupted: BTreeMap<Jid, String> = BTreeMap::new();
        let condition = file.replay(|record, range| {
            starts.take(&record);
            match record {
                Record::Started { jid, fun, expires } => {
                    index.set(&jid, Some(expires), SpooledJob::Running(Some(range)));
                    interrupted.insert(jid, fun);
                }
                Record::Return(returned) => {
                    interrupted.remove(&returned.jid);
                    index.set(&returned.jid, None, SpooledJob::Spooled(range, None));
                }
                Record::Done { jid } => {
                    interrupted.remove(&jid);
                    index.done(&jid, None);
                }
                Record::Aside { jid } => {
                    if let Some(SpooledJob::Spooled(range, _)) =
                        index.entries.get(&jid).map(|entry| entry.state.clone())
                    {
                        index.set(&jid, None, SpooledJob::Aside(range));
                    }
                }
                Record::Seen { jid, expires } => {
                    index.set(&jid, Some(expires), SpooledJob::Done(None));
                }
                Record::Barred { jid, expires } => {
                    index.set(&jid, Some(expires), SpooledJob::Barred)
                }
                Record::Floor { jid } => index.floor = index.floor.take().max(Some(jid)),
                Record::Forgotten { until, at } => {
                    index.forgotten = index.forgotten.max(until);
                    index.forgotten_at = index.forgotten_at.max(at);
                }
                Record::Scheduled { jid, call } => {
                    index.set(&jid, Some(0), SpooledJob::Running(Some(range)));
                    interrupted.insert(jid.clone(), call.run.fun.clone());
                    index.scheduled.insert(jid, call);
                }
                Record::Heartbeat => index.heartbeats_noted += 1,
                Record::Start {
                    heartbeats_noted, ..
                } => index.heartbeats_noted = index.heartbeats_noted.max(heartbeats_noted),
                Record::Reconciled | Record::Stopped => {}
            }
        })?;
        let damaged = condition == Condition::Damaged;
        let place = SpoolLocation::of(folder.as_deref());
        let id = StartId::random().map_err(io::Error::other)?;
        let mut start = starts.next(id, &place, sync_always, damaged);
        start.heartbeats_before = index.heartbeats_noted;
        if let Some(before) = note.as_ref().and_then(StartNote::before) {
            starts.follow(&mut start, before.start, &before.predecessors);
        }
        let spool = Self {
            file: Mutex::new(file),
            index: Mutex::new(index),
            start: Mutex::new(start),
            place,
            note,
            returned: Notify::new(),
            scheduled_returned: Notify::new(),
        };
        spool.note_start();
        let why = match spool.start().power_lost {
            true => INTERRUPTED_OR_LOST,
            false => INTERRUPTED,
        };
        for (jid, fun) in interrupted {
            if left.contains(&jid) {
                continue;
            }
            tracing::warn!("job {jid}: {fun} was interrupted when the minion stopped");
            spool.finish(Return {
                jid,
                fun,
                retcode: RETCODE_INTERRUPTED,
                success: false,
                payload: Packed::pack(&Value::from(why)),
            });
        }
        if damaged && let Err(error) = spool.compact(&mut lock(&spool.file), None) {
            tracing::warn!("the damaged spool was not written again: {error}");
        }
        Ok(spool)
    }

    /// Returns the record of this start.
    fn start_record(&self) -> Record {
        let start = self.start();
        Record::Start {
            start: start.id,
            predecessors: start.predecessors,
            place: self.place.clone(),
            heartbeats_noted: self.heartbeats_noted(),
            power_lost: start.power_lost,
            is_synced: start.is_synced,
        }
    }

    fn note_start(&self) {
        let record = self.start_record();
        if let Err(error) = lock(&self.file).append_synced(&record) {
            // Its successor has the same predecessor, which the master takes for a copy of the disk: it
            // runs nothing then that may have run.
            tracing::warn!(
                "this start is not noted in the spool, so the next one will look like a copy of this machine: {error}"
            );
        }
        if let Some(note) = &self.note {
            note.note(&self.start());
        }
    }

    /// Returns how many heartbeats were noted since the spool was made. A master that has heard a larger number knows that
    /// the disk is an older one, or the memory of the machine.
    pub fn heartbeats_noted(&self) -> u64 {
        lock(&self.index).heartbeats_noted
    }

    /// Returns this start of the minion.
    pub fn start(&self) -> Start {
        lock(&self.start).clone()
    }

    /// Notes that a master knows this start: the next one need not tell what was lost before it. This one tells it
    /// again to a master whose store was put back.
    pub fn reconciled(&self) {
        let noted = std::mem::replace(&mut lock(&self.start).reconciled, true);
        if noted {
            return;
        }
        if let Some(note) = &self.note {
            note.note(&self.start());
        }
        if let Err(error) = lock(&self.file).append_synced(&Record::Reconciled) {
            tracing::warn!("the reconciliation is not noted in the spool: {error}");
        }
    }

    /// Notes that a heartbeat is about to be sent. `now` is the master's time, if known.
    pub fn note_heartbeat(&self, now: Option<MasterTime>) {
        let mut file = lock(&self.file);
        match file.append(&Record::Heartbeat, true) {
            // Only what the disk has: a later start counts no more.
            Ok(_) => lock(&self.index).heartbeats_noted += 1,
            Err(error) => tracing::debug!("a heartbeat is not noted in the spool: {error}"),
        }
        self.compact_if_grown(&mut file, now);
    }

    /// Notes that the minion stops in order, so that a restart of the machine is no loss of power. Call
    /// it when nothing is noted any more.
    pub fn stopped(&self) {
        if let Err(error) = lock(&self.file).append_synced(&Record::Stopped) {
            tracing::warn!("the end of the minion is not noted in the spool: {error}");
        }
    }

    /// Whether the job was begun before.
    pub fn is_seen(&self, jid: &Jid) -> bool {
        lock(&self.index).is_seen(jid)
    }

    /// Returns what is known of a job.
    pub fn known(&self, jid: &Jid) -> Known {
        lock(&self.index).known(jid)
    }

    /// States which jobs that expire after `after` and until `now` were begun; see
    /// [`ExpiryAck`]. Those whose returns were acknowledged in `session` are left out, and the
    /// ack ends earlier when there are more than `most`.
    pub fn settle(
        &self,
        after: MasterTime,
        now: MasterTime,
        session: u64,
        most: usize,
    ) -> ExpiryAck {
        lock(&self.index).settle(after, now, session, most)
    }

    /// Notes that the master has the minion's acknowledgement up to this expiry.
    pub fn settle_until(&self, until: MasterTime) {
        lock(&self.index).settle_until(until);
    }

    /// Begins a session with a master whose time is `now`, and which has the minion's acknowledgement of the expiries up to
    /// `until`.
    pub fn begin_session(&self, until: MasterTime, now: MasterTime) {
        lock(&self.index).begin_session(until, now);
    }

    /// Bars a job that was not begun, so that it never begins. Returns what is known of it.
    pub fn bar(&self, jid: &Jid, expires: MasterTime) -> Known {
        let mut file = lock(&self.file);
        let known = self.known(jid);
        if known != Known::No {
            return known;
        }
        let record = Record::Barred {
            jid: jid.clone(),
            expires,
        };
        if let Err(error) = file.append(&record, true) {
            // It is barred in memory; the master asks again after a restart.
            tracing::warn!("job {jid}: its cancellation is not noted in the spool: {error}");
        }
        lock(&self.index).set(jid, Some(expires), SpooledJob::Barred);
        Known::Barred
    }

    /// Notes that `job` begins now. The job must not run unless this succeeds.
    ///
    /// # Errors
    /// When the job was begun before, is over, or cannot be noted.
    pub fn begin(&self, job: &Job) -> Result<(), BeginError> {
        let mut file = lock(&self.file);
        {
            // In one step with the minion's expiry ack.
            let mut index = lock(&self.index);
            if index.known(&job.jid) == Known::Barred || index.is_settled(job.expires) {
                return Err(BeginError::Over);
            }
            if index.is_seen(&job.jid) {
                return Err(BeginError::Seen);
            }
            index.set(&job.jid, Some(job.expires), SpooledJob::Running(None));
        }
        let record = Record::Started {
            jid: job.jid.clone(),
            fun: job.fun.clone(),
            expires: job.expires,
        };
        match file.append(&record, true) {
            Ok(range) => {
                let mut index = lock(&self.index);
                index.set(
                    &job.jid,
                    Some(job.expires),
                    SpooledJob::Running(Some(range)),
                );
                Ok(())
            }
            Err(error) => {
                lock(&self.index).remove(&job.jid);
                Err(error.into())
            }
        }
    }

    /// Notes that a job runs which an earlier start of the minion began, if the spool does not know it: it was emptied.
    pub fn take_over(&self, job: &JobRecord) {
        let JobRecord { jid, expires, .. } = job;
        if self.known(jid) != Known::No {
            return;
        }
        if let Some(call) = &job.scheduled {
            return self.begin_scheduled(jid, call.clone());
        }
        let mut file = lock(&self.file);
        let record = Record::Started {
            jid: jid.clone(),
            fun: job.fun.clone(),
            expires: *expires,
        };
        let range = file.append(&record, true).inspect_err(|error| {
            tracing::warn!("job {jid}: it runs, which is not noted in the spool: {error}");
        });
        lock(&self.index).set(jid, Some(*expires), SpooledJob::Running(range.ok()));
    }

    /// Keeps a return until it is acknowledged: in the file, or, if the disk does not take it, in
    /// memory. Returns whether the file has it, or nobody wants it.
    pub fn finish(&self, returned: Return) -> bool {
        let jid = returned.jid.clone();
        let mut file = lock(&self.file);
        let retcode = returned.retcode;
        if self.is_unwanted(&jid) {
            lock(&self.index).log_return(&jid, retcode);
            self.forget_scheduled(&mut file, &jid);
            return true;
        }
        let record = Record::Return(returned);
        let appended = self
            .note_scheduled(&mut file, &jid)
            .and_then(|()| file.append(&record, true));
        let is_written = appended.is_ok();
        let Record::Return(returned) = record else {
            return is_written;
        };
        let mut index = lock(&self.index);
        let state = match appended {
            Ok(range) => {
                let fits = index.has_room_for(returned.payload.as_bytes().len());
                SpooledJob::Spooled(range, fits.then_some(returned))
            }
            Err(error) => {
                tracing::error!(
                    "job {jid}: cannot write its return to the spool; it is kept in memory until the \
                     master has it: {error}"
                );
                SpooledJob::Unspooled(returned)
            }
        };
        index.set(&jid, None, state);
        // While the index is locked: nobody sends the return before, and no line about the master's answer comes first.
        index.log_return(&jid, retcode);
        self.notify(&index, &jid);
        is_written
    }

    /// Keeps the return of a job that could not begin. The job counts as seen from now on.
    pub fn refuse(&self, expires: MasterTime, returned: Return) {
        let jid = returned.jid.clone();
        self.finish(returned);
        if let Some(entry) = lock(&self.index).entries.get_mut(&jid) {
            entry.expires = expires;
        }
    }

    /// Waits until there may be a return to send.
    ///
    /// # Cancel safety
    /// A wake-up is not lost when the future is dropped.
    pub async fn returned(&self) {
        self.returned.notified().await;
    }

    /// Takes the oldest job whose return is to be sent. The caller gives it back with
    /// [`put_back`](Self::put_back), or finishes it with [`done`](Self::done).
    pub fn take_unsent(&self) -> Option<Jid> {
        lock(&self.index).take_unsent()
    }

    /// Gives back a job whose return was not acknowledged.
    pub fn put_back(&self, jid: &Jid) {
        let mut index = lock(&self.index);
        index.put_back(jid);
        self.notify(&index, jid);
    }

    /// Wakes who sends the return of this job.
    fn notify(&self, index: &Index, jid: &Jid) {
        match index.scheduled.contains_key(jid) {
            true => self.scheduled_returned.notify_one(),
            false => self.returned.notify_one(),
        }
    }

    /// Returns the length of the record with the return of a job, in bytes; 0 when it is not in the file.
    pub fn record_length(&self, jid: &Jid) -> u64 {
        match lock(&self.index).entries.get(jid).map(|entry| &entry.state) {
            Some(SpooledJob::Spooled(range, _)) => range.length,
            _ => 0,
        }
    }

    /// Returns the return of a job, if it is in memory.
    pub fn in_memory(&self, jid: &Jid) -> Option<Return> {
        match &lock(&self.index).entries.get(jid)?.state {
            SpooledJob::Spooled(_, cached) => cached.clone(),
            SpooledJob::Unspooled(returned) => Some(returned.clone()),
            SpooledJob::Running(_)
            | SpooledJob::Aside(_)
            | SpooledJob::Done(_)
            | SpooledJob::Barred => None,
        }
    }

    /// Returns the return of a job, from the file if need be; none if there is none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(&self, jid: &Jid) -> io::Result<Option<Return>> {
        let mut file = lock(&self.file);
        let range = match lock(&self.index).entries.get(jid).map(|e| e.state.clone()) {
            Some(SpooledJob::Spooled(_, Some(returned)) | SpooledJob::Unspooled(returned)) => {
                return Ok(Some(returned));
            }
            Some(SpooledJob::Spooled(range, None) | SpooledJob::Aside(range)) => range,
            _ => return Ok(None),
        };
        match file.read(range)? {
            Record::Return(returned) => Ok(Some(returned)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Forgets returns that the master has stored. `now` is the master's time, if known, and `session` the
    /// number of the session in which it was acknowledged, counted from the start of the process.
    pub fn done(&self, jids: &[Jid], now: Option<MasterTime>, session: u64) {
        let mut file = lock(&self.file);
        let records = jids.iter().map(|jid| Record::Done { jid: jid.clone() });
        if let Err(error) = file.append_all(records) {
            // After a restart the returns are sent once more, and the master answers with
            // `Duplicate`.
            let count = jids.len();
            tracing::warn!("cannot note in the spool that {count} jobs are done: {error}");
        }
        let mut index = lock(&self.index);
        for jid in jids {
            index.done(jid, Some(session));
        }
        drop(index);
        self.compact_if_grown(&mut file, now);
    }

    fn compact_if_grown(&self, file: &mut SpoolFile, now: Option<MasterTime>) {
        if file.has_grown()
            && let Err(error) = self.compact(file, now)
        {
            tracing::warn!("the spool was not compacted: {error}");
        }
    }

    /// Returns how many returns are not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        lock(&self.index).unacknowledged()
    }

    /// Returns the size of the spool in bytes; none while it is written, which is not waited for.
    pub fn bytes(&self) -> Option<u64> {
        match self.file.try_lock() {
            Ok(file) => Some(file.bytes()),
            Err(TryLockError::Poisoned(file)) => Some(file.into_inner().bytes()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests;
