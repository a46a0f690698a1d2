//! The records of all minions, in memory and in a file of their own beside the partitions.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rusqlite::Connection;
use saline_messages::{MasterTime, MinionId, StartId};
use tokio::sync::oneshot;

use super::memory::minion_record::MinionRecord;
use super::tables::heard_heartbeats::HeardHeartbeats;
use super::tables::minions::{self, CopyMade};
use super::{StoreError, lock};
use crate::disk::thread::{TaskQueue, Thread};

/// Records that are to be written.
pub(super) type RecordCopies = HashMap<MinionId, MinionRecord>;

/// A write for the thread: the records, and who waits for the commit.
type Write = (RecordCopies, oneshot::Sender<Result<(), StoreError>>);

/// The records of all minions. Only a flush writes them, as they were when it began, after the states of jobs that had
/// changed by then: so no expiry ack, no start and no key is on the disk before what follows from it, and no older record
/// is written over a newer one.
pub(super) struct MinionRecords {
    records: Mutex<HashMap<MinionId, MinionRecord>>,
    /// The minions whose records must be written soon, and those whose records can wait.
    unwritten: Mutex<Unwritten>,
    thread: Thread<Write>,
    path: PathBuf,
    /// The last expiry that earlier starts of the master found passed.
    expired_until: MasterTime,
    /// When the copy was made that the store is, if no master had started with it.
    copy: Option<CopyMade>,
}

#[derive(Debug, Default)]
struct Unwritten {
    soon: HashSet<MinionId>,
    later: HashSet<MinionId>,
    /// The minions that have not acknowledged the expiry of a job that only the disk holds.
    unacked: HashSet<MinionId>,
    /// The minions whose key was noted or taken away since their record was written.
    keys: HashSet<MinionId>,
}

impl Unwritten {
    fn change_key(&mut self, minion: &MinionId) {
        self.soon.insert(minion.clone());
        self.keys.insert(minion.clone());
    }
}

impl MinionRecords {
    /// Opens the file in the store's folder, which exists, and reads it.
    pub(super) fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(minions::FILE);
        let connection = minions::open(&path)?;
        let records = minions::read(&connection)?;
        let expired_until = minions::read_expired_until(&connection)?;
        let copy = minions::read_copy(&connection)?;
        let thread = Thread::start("saline-minions", move |queue| work(connection, queue))
            .map_err(|error: io::Error| StoreError::io(&path, error))?;
        Ok(Self {
            records: Mutex::new(records),
            unwritten: Mutex::default(),
            thread,
            path,
            expired_until,
            copy,
        })
    }

    /// Returns when the copy was made that the store is, if no master had started with it when it was opened.
    pub(super) fn copy(&self) -> Option<CopyMade> {
        self.copy
    }

    /// Returns the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the record of a minion.
    pub(super) fn get(&self, minion: &MinionId) -> Option<MinionRecord> {
        lock(&self.records).get(minion).cloned()
    }

    /// Runs `look` with all records.
    pub(super) fn look<T>(&self, look: impl FnOnce(&HashMap<MinionId, MinionRecord>) -> T) -> T {
        look(&lock(&self.records))
    }

    /// Returns how many heartbeats of a minion were heard of; zero without a record.
    pub(super) fn heartbeats_heard(&self, minion: &MinionId) -> u64 {
        let records = lock(&self.records);
        records
            .get(minion)
            .map_or(0, |record| record.heartbeats_noted)
    }

    /// Takes how many heartbeats had been heard of when jobs were offered, by an earlier start of the master.
    pub(super) fn take_heartbeats_heard(&self, heard: HeardHeartbeats) {
        for (minion, heartbeats) in heard {
            self.change(&minion, |record| {
                record.heartbeats_noted = record.heartbeats_noted.max(heartbeats);
                false
            });
        }
    }

    /// Returns the latest time in any record, and of the expiries that earlier starts of the master found passed.
    pub(super) fn latest(&self) -> MasterTime {
        let records = lock(&self.records);
        let acked = records.values().map(|record| record.expiry_acked_until);
        acked.max().unwrap_or(0).max(self.expired_until)
    }

    /// Changes a record in memory, which is `first` if there is none. It is written soon.
    pub(super) fn put(
        &self,
        minion: &MinionId,
        first: MinionRecord,
        change: impl FnOnce(&mut MinionRecord),
    ) {
        let mut records = lock(&self.records);
        change(records.entry(minion.clone()).or_insert(first));
        lock(&self.unwritten).soon.insert(minion.clone());
    }

    /// Notes a minion's key, in a new record if there is none. A key that is noted already stays. Returns whether
    /// it is this one.
    pub(super) fn note_key(&self, minion: &MinionId, key: [u8; 32], now: MasterTime) -> bool {
        let mut records = lock(&self.records);
        // Looked up first: every handshake comes here.
        if let Some(known) = records.get(minion).and_then(|record| record.key) {
            return known == key;
        }
        let record = records.entry(minion.clone());
        let record = record.or_insert_with(|| MinionRecord::new(StartId::default(), now));
        record.key = Some(key);
        lock(&self.unwritten).change_key(minion);
        true
    }

    /// Notes the time at which the Noise key was vouched for with which a minion comes whose key is noted. Returns whether no
    /// later vouch is known. The note is written soon.
    pub(super) fn note_vouch(&self, minion: &MinionId, vouched: u64) -> bool {
        let mut records = lock(&self.records);
        let Some(record) = records.get_mut(minion) else {
            return true;
        };
        if record.vouched < vouched {
            record.vouched = vouched;
            lock(&self.unwritten).soon.insert(minion.clone());
        }
        record.vouched == vouched
    }

    /// Whether `accepted` is a key, and the one that is noted for the minion.
    pub(super) fn has_key(&self, minion: &MinionId, accepted: Option<[u8; 32]>) -> bool {
        let known = lock(&self.records)
            .get(minion)
            .and_then(|record| record.key);
        accepted.is_some() && known == accepted
    }

    /// Has the record of a minion go on for another machine, with the key `accepted` or without one.
    pub(super) fn replace_key(
        &self,
        minion: &MinionId,
        accepted: Option<[u8; 32]>,
        now: MasterTime,
    ) {
        let mut records = lock(&self.records);
        if accepted.is_none() && !records.contains_key(minion) {
            return;
        }
        let record = records.entry(minion.clone());
        let record = record.or_insert_with(|| MinionRecord::new(StartId::default(), now));
        record.skip(now);
        record.start = StartId::default();
        record.key = accepted;
        record.vouched = 0;
        lock(&self.unwritten).change_key(minion);
    }

    /// Whether the key of any minion was changed and is not written yet.
    pub(super) fn has_unwritten_keys(&self) -> bool {
        !lock(&self.unwritten).keys.is_empty()
    }

    /// Whether the key of any of these minions was changed and is not written yet.
    pub(super) fn has_unwritten_key_of<'a>(
        &self,
        mut minions: impl Iterator<Item = &'a MinionId>,
    ) -> bool {
        let unwritten = lock(&self.unwritten);
        !unwritten.keys.is_empty() && minions.any(|minion| unwritten.keys.contains(minion))
    }

    /// Changes a record in memory. It is written soon, or with `later` within minutes.
    pub(super) fn change(&self, minion: &MinionId, change: impl FnOnce(&mut MinionRecord) -> bool) {
        let mut records = lock(&self.records);
        let Some(record) = records.get_mut(minion) else {
            return;
        };
        let soon = change(record);
        let mut unwritten = lock(&self.unwritten);
        let unacked = unwritten.unacked.remove(minion);
        if soon || unacked {
            unwritten.soon.insert(minion.clone());
        } else {
            unwritten.later.insert(minion.clone());
        }
    }

    /// Notes that the expiry acks of these minions decide about jobs that only the disk holds.
    pub(super) fn note_unacked(&self, minions: Vec<MinionId>) {
        lock(&self.unwritten).unacked.extend(minions);
    }

    /// Takes copies of the records that have to be written soon, and with `all` also of the others.
    pub(super) fn take_unwritten(&self, all: bool) -> RecordCopies {
        let minions = {
            let mut unwritten = lock(&self.unwritten);
            let mut minions = std::mem::take(&mut unwritten.soon);
            if all {
                minions.extend(std::mem::take(&mut unwritten.later));
            }
            minions
        };
        let records = lock(&self.records);
        let found = minions.into_iter().filter_map(|minion| {
            let record = records.get(&minion)?.clone();
            Some((minion, record))
        });
        found.collect()
    }

    /// Writes records and waits for the commit. For the flush alone, which knows what comes before them.
    pub(super) async fn write(&self, copies: RecordCopies) -> Result<(), StoreError> {
        if copies.is_empty() {
            return Ok(());
        }
        let keys = copies
            .iter()
            .map(|(minion, copy)| (minion.clone(), copy.key));
        let keys: Vec<_> = keys.collect();
        let (done, written) = oneshot::channel();
        self.thread.send((copies, done)).await?;
        written.await.map_err(|_| StoreError::Closed)??;
        let records = lock(&self.records);
        let mut unwritten = lock(&self.unwritten);
        for (minion, key) in keys {
            if records.get(&minion).is_some_and(|record| record.key == key) {
                unwritten.keys.remove(&minion);
            }
        }
        Ok(())
    }

    /// Waits until the thread has done what is queued, and has ended.
    pub(super) async fn close(&self) {
        self.thread.close().await;
    }
}

/// Writes what is queued in one transaction, again and again.
fn work(mut connection: Connection, mut queue: TaskQueue<Write>) {
    while let Some(first) = queue.next() {
        let mut batch = vec![first];
        while batch.len() < 1_000
            && let Some(next) = queue.try_next()
        {
            batch.push(next);
        }
        let records = batch.iter().flat_map(|(records, _)| records);
        let outcome = minions::write(&mut connection, records);
        if let Err(error) = &outcome {
            tracing::error!(%error, "the records of minions were not written, and are tried again");
        }
        for (_, done) in batch {
            // The caller may have gone.
            let _ = done.send(outcome.clone());
        }
    }
}

/// Sets the times in the records of a store that are after `now` to `now`, since the master's time is set back to it. Nobody
/// else has the file open.
pub(super) fn set_back(folder: &Path, now: MasterTime) -> Result<(), StoreError> {
    let mut connection = minions::open(&folder.join(minions::FILE))?;
    let mut records = minions::read(&connection)?;
    for record in records.values_mut() {
        record.set_back(now);
    }
    minions::write(&mut connection, &records)?;
    let expired_until = minions::read_expired_until(&connection)?.min(now);
    minions::write_expired_until(&connection, expired_until)
}

/// Notes in the folder of a store the last expiry that a start of the master has found passed. If the store is a copy, its
/// master has started.
pub(super) fn note_start(folder: &Path, expired_until: MasterTime) -> Result<(), StoreError> {
    let mut connection = minions::open(&folder.join(minions::FILE))?;
    minions::write_start(&mut connection, expired_until)
}
