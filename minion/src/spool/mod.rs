//! The spool: the jobs that the minion began, and the returns that the master has not acknowledged.
//! One append-only file, whose records survive a crash of the process, and with `spool_sync: always`
//! a power loss.
//!
//! A job is noted as started before it runs, so it runs at most once: after a crash the minion
//! returns that it was interrupted. A return leaves the spool only when the master has it.

mod file;
mod index;
mod record;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use saline_protocol::message::{
    Jid, Job, MasterTime, Packed, PackedArguments, RETCODE_INTERRUPTED, Return, Value,
};
use tokio::sync::Notify;

use crate::modules::INTERRUPTED;
use file::SpoolFile;
use index::{Index, State};
use record::Record;

/// The reason why a job may not begin.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// The job was begun before.
    #[error("this job was begun before")]
    Seen,
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
    returned: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is complete in one step, so a poisoned lock is still valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Spool {
    /// Reads the spool at `path`. Every job that was begun and did not return gets a return that
    /// says that it was interrupted.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn open(path: PathBuf, sync_always: bool) -> io::Result<Self> {
        let mut file = SpoolFile::new(path, sync_always);
        let mut index = Index::default();
        let mut interrupted: BTreeMap<Jid, (String, PackedArguments)> = BTreeMap::new();
        file.replay(|record, range| match record {
            Record::Started {
                jid,
                fun,
                arg,
                expires,
            } => {
                index.set(&jid, Some(expires), State::Running(range));
                interrupted.insert(jid, (fun, arg));
            }
            Record::Return(returned) => {
                interrupted.remove(&returned.jid);
                index.set(&returned.jid, None, State::Spooled(range, None));
            }
            Record::Done { jid } => {
                interrupted.remove(&jid);
                index.set(&jid, None, State::Done);
            }
            Record::Seen { jid, expires } => index.set(&jid, Some(expires), State::Done),
            Record::Floor { jid } => index.floor = index.floor.take().max(Some(jid)),
        })?;
        let spool = Self {
            file: Mutex::new(file),
            index: Mutex::new(index),
            returned: Notify::new(),
        };
        for (jid, (fun, fun_args)) in interrupted {
            tracing::warn!("job {jid}: {fun} was interrupted when the minion stopped");
            spool.finish(Return {
                jid,
                fun,
                fun_args,
                retcode: RETCODE_INTERRUPTED,
                success: false,
                payload: Packed::pack(&Value::from(INTERRUPTED)),
            });
        }
        Ok(spool)
    }

    /// Whether the job was begun before.
    pub fn is_seen(&self, jid: &Jid) -> bool {
        lock(&self.index).is_seen(jid)
    }

    /// Notes that `job` begins now. The job must not run unless this succeeds.
    ///
    /// # Errors
    /// When the job was begun before, or cannot be noted.
    pub fn begin(&self, job: &Job) -> Result<(), BeginError> {
        let mut file = lock(&self.file);
        if self.is_seen(&job.jid) {
            return Err(BeginError::Seen);
        }
        let record = Record::Started {
            jid: job.jid.clone(),
            fun: job.fun.clone(),
            arg: job.arg.clone(),
            expires: job.expires,
        };
        let range = file.append(&record, true)?;
        lock(&self.index).set(&job.jid, Some(job.expires), State::Running(range));
        Ok(())
    }

    /// Keeps a return until it is acknowledged: in the file, or, if the disk does not take it, in
    /// memory.
    pub fn finish(&self, returned: Return) {
        let jid = returned.jid.clone();
        let record = Record::Return(returned);
        let mut file = lock(&self.file);
        let appended = file.append(&record, true);
        let Record::Return(returned) = record else {
            return;
        };
        let mut index = lock(&self.index);
        let state = match appended {
            Ok(range) => {
                let small = index.has_room_for(returned.payload.as_bytes().len());
                State::Spooled(range, small.then_some(returned))
            }
            Err(error) => {
                tracing::error!(
                    "job {jid}: cannot write its return to the spool; it is kept in memory until the \
                     master has it: {error}"
                );
                State::Unspooled(returned)
            }
        };
        index.set(&jid, None, state);
        drop(index);
        self.returned.notify_one();
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
        lock(&self.index).put_back(jid);
        self.returned.notify_one();
    }

    /// Returns the length of the record with the return of a job, in bytes; 0 when it is not in the file.
    pub fn record_length(&self, jid: &Jid) -> u64 {
        match lock(&self.index).entries.get(jid).map(|entry| &entry.state) {
            Some(State::Spooled(range, _)) => range.length,
            _ => 0,
        }
    }

    /// Returns the return of a job, if it is in memory.
    pub fn in_memory(&self, jid: &Jid) -> Option<Return> {
        match &lock(&self.index).entries.get(jid)?.state {
            State::Spooled(_, cached) => cached.clone(),
            State::Unspooled(returned) => Some(returned.clone()),
            State::Running(_) | State::Done => None,
        }
    }

    /// Returns the return of a job, from the file if need be; none if there is none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(&self, jid: &Jid) -> io::Result<Option<Return>> {
        let mut file = lock(&self.file);
        let range = match lock(&self.index).entries.get(jid).map(|e| e.state.clone()) {
            Some(State::Spooled(_, Some(returned)) | State::Unspooled(returned)) => {
                return Ok(Some(returned));
            }
            Some(State::Spooled(range, None)) => range,
            _ => return Ok(None),
        };
        match file.read(range)? {
            Record::Return(returned) => Ok(Some(returned)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Forgets returns that the master has stored or refused for good. `now` is the master's time, if
    /// known.
    pub fn done(&self, jids: &[Jid], now: Option<MasterTime>) {
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
            index.set(jid, None, State::Done);
        }
        drop(index);
        if file.has_grown()
            && let Err(error) = self.compact(&mut file, now)
        {
            tracing::warn!("the spool was not compacted: {error}");
        }
    }

    fn compact(&self, file: &mut SpoolFile, now: Option<MasterTime>) -> io::Result<()> {
        let mut index = lock(&self.index);
        index.prune(now);
        let entries: Vec<_> = index
            .entries
            .iter()
            .map(|(jid, entry)| (jid.clone(), entry.expires, Kept::of(&entry.state)))
            .collect();
        let floor = index.floor.clone();
        drop(index);
        let mut moved = Vec::new();
        file.rewrite(|old, new| {
            if let Some(jid) = floor {
                new.append(&Record::Floor { jid }, false)?;
            }
            for (jid, expires, kept) in entries {
                let seen = Record::Seen {
                    jid: jid.clone(),
                    expires,
                };
                new.append(&seen, false)?;
                match kept {
                    Kept::Record(range) => {
                        let record = old.read(range)?;
                        moved.push((jid, new.append(&record, false)?));
                    }
                    Kept::Return(returned) => {
                        new.append(&Record::Return(returned), false)?;
                    }
                    Kept::Nothing => {}
                }
            }
            Ok(())
        })?;
        // No other thread moves records: the file is locked.
        let mut index = lock(&self.index);
        for (jid, new) in moved {
            if let Some(entry) = index.entries.get_mut(&jid)
                && let State::Running(range) | State::Spooled(range, _) = &mut entry.state
            {
                *range = new;
            }
        }
        Ok(())
    }

    /// Returns how many returns are not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        lock(&self.index).unacknowledged()
    }
}

/// The part of a job's state that a compaction keeps, beside the job's being seen.
enum Kept {
    Nothing,
    /// The record in this range.
    Record(index::FileRange),
    /// A return that the disk did not take when it came.
    Return(Return),
}

impl Kept {
    fn of(state: &State) -> Self {
        match state {
            State::Running(range) | State::Spooled(range, _) => Self::Record(*range),
            State::Unspooled(returned) => Self::Return(returned.clone()),
            State::Done => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests;
