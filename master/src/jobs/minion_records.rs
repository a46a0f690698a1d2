//! What the store remembers of each minion beside its jobs: its last start, and how far it has given its
//! expiry acks. In memory, and in a file of its own beside the partitions.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rusqlite::{Connection, params};
use saline_messages::{MasterTime, MinionId, MinionJobState, StartId, decode, encode};
use tokio::sync::oneshot;

use super::disk::schema;
use super::disk::thread::{TaskQueue, Thread};
use super::{StoreError, lock};

/// The file's name.
pub(super) const FILE: &str = "minions.sqlite";

/// The largest number of times that are remembered for which a minion cannot acknowledge expiries.
const GAPS: usize = 16;

/// The record of one minion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinionRecord {
    /// The last start of the minion that was reconciled; zero when none was.
    pub start: StartId,
    /// The accepted key to which the minion's offers are made; none when it was deleted or rejected, or was
    /// never seen.
    pub key: Option<[u8; 32]>,
    /// The highest time at which a Noise key that the minion came with was vouched for, in nanoseconds since 1970.
    pub vouched: u64,
    /// When a duplicate of the minion reconciled last: a copy of it, or the one of which it is a copy. 0 when
    /// none ever did.
    pub duplicate_seen: MasterTime,
    /// The number of heartbeats that the minion's spool has noted, as far as it was heard.
    pub heartbeats_noted: u64,
    /// The expiry up to which the minion has acknowledged.
    pub expiry_acked_until: MasterTime,
    /// The expiries, each after the first and until the second time, for which it cannot tell: its disk
    /// was lost, or replaced.
    gaps: Vec<(MasterTime, MasterTime)>,
}

impl MinionRecord {
    /// Begins the record of a minion that reconciles for the first time.
    pub(super) fn new(start: StartId, now: MasterTime) -> Self {
        Self {
            start,
            key: None,
            vouched: 0,
            duplicate_seen: 0,
            heartbeats_noted: 0,
            expiry_acked_until: now,
            gaps: Vec::new(),
        }
    }

    /// Whether the expiry ack of the minion counts for a job that was created then: no other copy of it can have
    /// begun the job, or none was heard of since `duplicates_before`.
    pub fn is_authoritative_for(&self, created: MasterTime, duplicates_before: MasterTime) -> bool {
        created >= self.duplicate_seen || self.has_no_duplicate_since(duplicates_before)
    }

    /// Whether no other copy was heard of since `time`.
    pub fn has_no_duplicate_since(&self, time: MasterTime) -> bool {
        self.duplicate_seen <= time
    }

    /// Returns the state at this record of an offer that the minion has not begun as far as the store
    /// knows; none while the minion has not acknowledged the expiry.
    pub fn verdict(&self, expires: MasterTime) -> Option<MinionJobState> {
        let is_gap =
            |(after, until): &(MasterTime, MasterTime)| *after < expires && expires <= *until;
        if expires > self.expiry_acked_until {
            None
        } else if self.gaps.iter().any(is_gap) {
            Some(MinionJobState::MayHaveRun)
        } else {
            Some(MinionJobState::Expired)
        }
    }

    /// Takes the minion's acknowledgement of the expiries after `after` and until `until`. What lies between the last
    /// one and this one stays without.
    pub(super) fn settle(&mut self, after: MasterTime, until: MasterTime) {
        if until <= self.expiry_acked_until {
            return;
        }
        if after > self.expiry_acked_until {
            self.skip(after);
        }
        self.expiry_acked_until = until;
    }

    /// Sets the times in the record that are after `now` to `now`, since the master's time is set back to it.
    fn set_back(&mut self, now: MasterTime) {
        self.duplicate_seen = self.duplicate_seen.min(now);
        self.expiry_acked_until = self.expiry_acked_until.min(now);
        self.gaps.retain(|(after, _)| *after < now);
        for (_, until) in &mut self.gaps {
            *until = (*until).min(now);
        }
    }

    /// Notes that the minion cannot acknowledge the expiries until `until`.
    pub(super) fn skip(&mut self, until: MasterTime) {
        if until <= self.expiry_acked_until {
            return;
        }
        if self.gaps.len() >= GAPS {
            // The two oldest become one: it is better to say too often that a job may have run.
            let (_, second) = (self.gaps.remove(0), &mut self.gaps[0]);
            second.0 = 0;
        }
        self.gaps.push((self.expiry_acked_until, until));
        self.expiry_acked_until = until;
    }
}

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
        let path = folder.join(FILE);
        let connection = schema::open_minions(&path)?;
        let records = read(&connection)?;
        let expired_until = read_expired_until(&connection)?;
        let thread = Thread::start("saline-minions", move |queue| work(connection, queue))
            .map_err(|error: io::Error| StoreError::io(&path, error))?;
        Ok(Self {
            records: Mutex::new(records),
            unwritten: Mutex::default(),
            thread,
            path,
            expired_until,
        })
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
        let outcome = write_all(&mut connection, records);
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
    let mut connection = schema::open_minions(&folder.join(FILE))?;
    let mut records = read(&connection)?;
    for record in records.values_mut() {
        record.set_back(now);
    }
    write_all(&mut connection, &records)?;
    let expired_until = read_expired_until(&connection)?.min(now);
    write_expired_until(&connection, expired_until)
}

/// Notes in the folder of a store the last expiry that a start of the master has found passed.
pub(super) fn note_expired_until(folder: &Path, until: MasterTime) -> Result<(), StoreError> {
    let connection = schema::open_minions(&folder.join(FILE))?;
    write_expired_until(&connection, until)
}

fn write_expired_until(connection: &Connection, until: MasterTime) -> Result<(), StoreError> {
    let until = super::disk::rows::from_time(until);
    let changed = connection.execute("UPDATE master_starts SET expired_until = ?1", [until])?;
    if changed == 0 {
        connection.execute("INSERT INTO master_starts VALUES (?1)", [until])?;
    }
    Ok(())
}

fn read_expired_until(connection: &Connection) -> Result<MasterTime, StoreError> {
    let sql = "SELECT max(expired_until) FROM master_starts";
    let until: Option<i64> = connection.query_row(sql, [], |row| row.get(0))?;
    Ok(MasterTime::try_from(until.unwrap_or(0)).unwrap_or(0))
}

fn write_all<'r>(
    connection: &mut Connection,
    records: impl IntoIterator<Item = (&'r MinionId, &'r MinionRecord)>,
) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    for (minion, record) in records {
        transaction
            .prepare_cached(
                "INSERT INTO minions (id, start, duplicate_seen, expiry_acked_until, gaps, heartbeats_noted, key, vouched)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT (id) DO UPDATE SET start = ?2, duplicate_seen = ?3,
                     expiry_acked_until = ?4, gaps = ?5, heartbeats_noted = ?6, key = ?7, vouched = ?8",
            )?
            .execute(params![
                minion.as_str(),
                record.start.0,
                super::disk::rows::from_time(record.duplicate_seen),
                super::disk::rows::from_time(record.expiry_acked_until),
                encode(&record.gaps),
                super::disk::rows::from_time(record.heartbeats_noted),
                record.key,
                super::disk::rows::from_time(record.vouched),
            ])?;
    }
    transaction.commit()?;
    Ok(())
}

fn read(connection: &Connection) -> Result<HashMap<MinionId, MinionRecord>, StoreError> {
    let mut statement = connection.prepare(
        "SELECT id, start, duplicate_seen, expiry_acked_until, gaps, heartbeats_noted, key, vouched FROM minions",
    )?;
    let mut found = statement.query([])?;
    let mut records = HashMap::new();
    while let Some(row) = found.next()? {
        let gaps = decode(super::disk::rows::blob(row, 4)?);
        let record = MinionRecord {
            start: StartId(row.get(1)?),
            duplicate_seen: super::disk::rows::time(row, 2)?,
            expiry_acked_until: super::disk::rows::time(row, 3)?,
            heartbeats_noted: super::disk::rows::time(row, 5)?,
            key: row.get(6)?,
            vouched: super::disk::rows::time(row, 7)?,
            gaps: gaps
                .map_err(|_| StoreError::corrupt("the gaps of a minion's record", "others"))?,
        };
        records.insert(super::disk::rows::minion(row, 0)?, record);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> MinionRecord {
        MinionRecord::new(StartId([1; 16]), 100)
    }

    #[test]
    fn what_lies_before_the_expiry_ack_has_expired() {
        let mut record = record();
        assert_eq!(record.verdict(101), None);
        record.settle(100, 200);
        assert_eq!(record.verdict(101), Some(MinionJobState::Expired));
        assert_eq!(record.verdict(201), None);
        record.settle(50, 150);
        assert_eq!(record.expiry_acked_until, 200, "it never goes back");
    }

    #[test]
    fn no_time_lies_after_that_to_which_the_masters_time_is_set_back() {
        let mut record = record();
        record.duplicate_seen = 900;
        record.settle(150, 200);
        record.settle(400, 1_000);
        record.settle(2_000, 3_000);
        record.set_back(300);
        assert_eq!(record.duplicate_seen, 300);
        let told = [120, 180, 250, 300, 301].map(|expires| record.verdict(expires));
        let (may, not) = (MinionJobState::MayHaveRun, MinionJobState::Expired);
        assert_eq!(told, [Some(may), Some(not), Some(may), Some(may), None]);
    }

    #[test]
    fn what_the_minion_cannot_tell_may_have_run() {
        let mut record = record();
        record.settle(150, 200);
        assert_eq!(record.verdict(120), Some(MinionJobState::MayHaveRun));
        assert_eq!(record.verdict(150), Some(MinionJobState::MayHaveRun));
        assert_eq!(record.verdict(151), Some(MinionJobState::Expired));
        for round in 0..40 {
            record.skip(300 + 10 * round);
            record.settle(300 + 10 * round, 305 + 10 * round);
        }
        assert!(record.gaps.len() <= GAPS);
        assert_eq!(record.verdict(120), Some(MinionJobState::MayHaveRun));
        assert_eq!(record.verdict(690), Some(MinionJobState::MayHaveRun));
    }
}
