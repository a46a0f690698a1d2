//! The payloads of large returns: in parts that are rows of their own, each committed with whatever else is queued, so
//! that the returns of other minions pass between them. As one row, 64 MB keep all others waiting for a third of a
//! second.
//!
//! The return is committed after its last part, and names the first. Parts without a return are left when the master ends
//! in between, and go at its next start; those of a call that failed or was dropped go with the next flush.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, params};
use saline_data::Packed;
use saline_messages::{MinionId, Return};

use super::disk::rows;
use super::disk::writer::StoreFile;
use super::{JobStore, StoreError, lock, returns};

/// The size in bytes above which a payload is stored in parts.
const WHOLE: usize = 1024 * 1024;

/// The size of a part in bytes.
const PART: usize = 512 * 1024;

/// The parts of a payload have consecutive numbers, of which the first is a multiple of this: 2 GiB.
const MAX_PARTS: i64 = 4_096;

/// Gives the numbers of parts, and keeps in mind which are to be removed.
#[derive(Debug)]
pub(super) struct LargePayloads {
    /// The number of the first part of the next payload. None is given twice while a master runs, so what is
    /// removed late is never the part of another payload.
    next: AtomicI64,
    /// The partitions and the first numbers of the payloads whose returns were not committed.
    unreturned: Mutex<Vec<(i64, i64)>>,
}

/// Parts that are in the store. Unless their return is committed too, dropping this has them removed.
#[derive(Debug)]
pub(super) struct StoredParts {
    start: i64,
    first: i64,
    is_kept: bool,
    payloads: Arc<LargePayloads>,
}

impl LargePayloads {
    /// Continues after the number of the last part.
    pub(super) fn after(last: i64) -> Self {
        Self {
            next: AtomicI64::new((last / MAX_PARTS + 1).saturating_mul(MAX_PARTS)),
            unreturned: Mutex::default(),
        }
    }

    /// Takes the numbers for a payload.
    fn begin(self: &Arc<Self>, start: i64) -> StoredParts {
        StoredParts {
            start,
            first: self.next.fetch_add(MAX_PARTS, Ordering::Relaxed),
            is_kept: false,
            payloads: Arc::clone(self),
        }
    }
}

impl StoredParts {
    /// Returns the number of the first part.
    pub(super) fn first(&self) -> i64 {
        self.first
    }

    /// Lets the parts stay: their return is committed.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for StoredParts {
    fn drop(&mut self) {
        if !self.is_kept {
            lock(&self.payloads.unreturned).push((self.start, self.first));
        }
    }
}

impl JobStore {
    /// Stores the payload of a return in parts, if it is large and the return is wanted, and takes it out of the
    /// return.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// Parts that were stored are removed with the next flush.
    pub(super) async fn store_large_payload(
        &self,
        start: i64,
        minion: &MinionId,
        job: i64,
        returned: &mut Return,
    ) -> Result<Option<StoredParts>, StoreError> {
        let size = returned.payload.as_bytes().len();
        if size <= WHOLE || size.div_ceil(PART) as u64 > MAX_PARTS as u64 {
            return Ok(None);
        }
        if !self.is_return_wanted(start, minion, job).await? {
            return Ok(None);
        }
        let parts = self.large_payloads.begin(start);
        let chunks = returned.payload.as_bytes().chunks(PART);
        for (number, bytes) in (parts.first..).zip(chunks) {
            let bytes = bytes.to_vec();
            let insert = move |connection: &Connection| {
                connection
                    .prepare_cached("INSERT INTO return_parts (number, bytes) VALUES (?1, ?2)")?
                    .execute(params![number, bytes])?;
                Ok(())
            };
            let place = StoreFile::Partition(start);
            self.writer.call(place, PART, insert, |_| {}).await?;
        }
        returned.payload = Packed::from_bytes(Vec::new());
        Ok(Some(parts))
    }

    /// Whether a return would be stored that comes now.
    async fn is_return_wanted(
        &self,
        start: i64,
        minion: &MinionId,
        job: i64,
    ) -> Result<bool, StoreError> {
        let (open, minion) = (Arc::clone(&self.open), minion.clone());
        let look = move |connection: &Connection| {
            let lookup = lock(&open).lookup(job, &minion);
            let refused = returns::refusal(connection, job, &minion, lookup)?;
            Ok(refused.is_none() && !returns::is_stored(connection, job, &minion)?)
        };
        let place = StoreFile::Partition(start);
        self.writer.call(place, 0, look, |_| {}).await
    }

    /// Removes the parts whose returns were not committed.
    ///
    /// # Errors
    /// When SQLite fails. The next call tries again.
    ///
    /// # Cancel safety
    /// What was not removed is removed by the next call.
    pub(super) async fn remove_unreturned_parts(&self) -> Result<(), StoreError> {
        let all = std::mem::take(&mut *lock(&self.large_payloads.unreturned));
        let payloads = &self.large_payloads;
        let all = all.into_iter().map(|(start, first)| StoredParts {
            start,
            first,
            is_kept: false,
            payloads: Arc::clone(payloads),
        });
        // All at once: those that are not reached are noted again.
        for parts in all.collect::<Vec<_>>() {
            let (start, first) = (parts.start, parts.first);
            let remove = move |connection: &Connection| remove(connection, first);
            let settled = move |removed: &Result<(), StoreError>| match removed {
                Ok(()) | Err(StoreError::Removed) => parts.keep(),
                Err(_) => drop(parts),
            };
            let place = StoreFile::Partition(start);
            match self.writer.call(place, 0, remove, settled).await {
                Ok(()) | Err(StoreError::Removed) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Removes all parts of a payload.
pub(super) fn remove(connection: &Connection, first: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM return_parts WHERE number >= ?1 AND number < ?2")?
        .execute([first, first + MAX_PARTS])?;
    Ok(())
}

/// Removes the parts of a partition whose returns were not committed before the master ended, and returns the
/// number of the last part that is left, or 0.
pub(super) fn settle(connection: &Connection) -> Result<i64, StoreError> {
    let removed = connection.execute(
        "DELETE FROM return_parts WHERE number - number % ?1 NOT IN
         (SELECT parts FROM returns WHERE parts IS NOT NULL)",
        [MAX_PARTS],
    );
    match removed.map_err(StoreError::from) {
        Ok(0) => {}
        Ok(removed) => tracing::debug!(removed, "parts of returns that never came are removed"),
        // A master starts on a full disk too.
        Err(StoreError::Full) => {}
        Err(error) => return Err(error),
    }
    let last: Option<i64> =
        connection.query_row("SELECT max(number) FROM return_parts", [], |row| row.get(0))?;
    Ok(last.unwrap_or(0))
}

/// Returns the size in bytes of a payload that is stored in parts.
pub(super) fn size(connection: &Connection, first: i64) -> Result<i64, StoreError> {
    // The bytes are not read for their length.
    let mut statement = connection.prepare_cached(
        "SELECT coalesce(sum(length(bytes)), 0) FROM return_parts WHERE number >= ?1 AND number < ?2",
    )?;
    Ok(statement.query_row([first, first + MAX_PARTS], |row| row.get(0))?)
}

/// Reads a payload that is stored in parts and has `size` bytes.
pub(super) fn read(
    connection: &Connection,
    first: i64,
    size: usize,
) -> Result<Vec<u8>, StoreError> {
    let mut payload = Vec::with_capacity(size);
    let mut statement = connection.prepare_cached(
        "SELECT bytes FROM return_parts WHERE number >= ?1 AND number < ?2 ORDER BY number",
    )?;
    let mut found = statement.query([first, first + MAX_PARTS])?;
    while let Some(row) = found.next()? {
        payload.extend_from_slice(rows::blob(row, 0)?);
    }
    Ok(payload)
}
