//! The rows of payloads that came in parts. The return of a whole one names the first of its parts; until then a row of
//! `transfers` does.

use std::ops::Range;

use rusqlite::{Connection, Row, params};
use saline_messages::{MinionId, TransferDigest, TransferId};

use crate::disk::StoreError;
use crate::disk::columns;

/// The most parts of a payload. They have consecutive numbers, of which the first is a multiple of this.
pub(crate) const MAX_PARTS: i64 = 65_536;

/// A payload of which some parts are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredTransfer {
    pub(crate) minion: MinionId,
    pub(crate) job: i64,
    pub(crate) id: TransferId,
    /// The length of the whole in bytes.
    pub(crate) total: u64,
    /// The number of the first part.
    pub(crate) first: i64,
    /// The number of parts that are stored, and the sum of their lengths in bytes.
    pub(crate) parts: i64,
    pub(crate) received: u64,
}

/// Returns the numbers that the parts of a payload may have.
fn numbers(first: i64) -> Range<i64> {
    first..first.saturating_add(MAX_PARTS)
}

/// Notes that the parts of a payload come. What was noted of the same return before is replaced.
pub(crate) fn begin(connection: &Connection, transfer: &StoredTransfer) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO transfers (first, jid, minion, id, total) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            transfer.first,
            transfer.job,
            transfer.minion.as_str(),
            transfer.id.0,
            i64::try_from(transfer.total).unwrap_or(i64::MAX),
        ])?;
    Ok(())
}

/// Stores a part. It may be repeated.
pub(crate) fn insert(connection: &Connection, number: i64, bytes: &[u8]) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO return_parts (number, bytes) VALUES (?1, ?2)")?
        .execute(params![number, bytes])?;
    Ok(())
}

/// Notes that the parts belong to a return.
pub(crate) fn end(connection: &Connection, first: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM transfers WHERE first = ?1")?
        .execute([first])?;
    Ok(())
}

/// Removes all parts of a payload, unless a return names them, and the note that they come.
pub(crate) fn remove(connection: &Connection, first: i64) -> Result<(), StoreError> {
    let numbers = numbers(first);
    connection
        .prepare_cached(
            "DELETE FROM return_parts WHERE number >= ?1 AND number < ?2
             AND NOT EXISTS (SELECT 1 FROM returns WHERE parts = ?1)",
        )?
        .execute([numbers.start, numbers.end])?;
    end(connection, first)
}

/// Returns the length of a payload in bytes.
fn length(connection: &Connection, first: i64) -> Result<usize, StoreError> {
    let numbers = numbers(first);
    // The bytes are not read for their length.
    let mut statement = connection.prepare_cached(
        "SELECT coalesce(sum(length(bytes)), 0) FROM return_parts WHERE number >= ?1 AND number < ?2",
    )?;
    let length: i64 = statement.query_row([numbers.start, numbers.end], |row| row.get(0))?;
    Ok(usize::try_from(length).unwrap_or(usize::MAX))
}

/// The payload of a row of `returns`, whether it came as one or in parts.
#[derive(Debug)]
pub(crate) struct StoredPayload<'a> {
    row: &'a Row<'a>,
    /// The column of `payload`.
    column: usize,
    parts: Option<i64>,
    length: usize,
}

impl<'a> StoredPayload<'a> {
    /// Finds the payload of a row whose columns from `column` on are `parts`, `length(payload)` and `payload`. The payload is not read for
    /// its length.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(crate) fn of(
        connection: &Connection,
        row: &'a Row<'a>,
        column: usize,
    ) -> Result<Self, StoreError> {
        let parts: Option<i64> = row.get(column)?;
        let length = match parts {
            Some(first) => length(connection, first)?,
            None => usize::try_from(row.get::<_, i64>(column + 1)?).unwrap_or(usize::MAX),
        };
        Ok(Self {
            row,
            column: column + 2,
            parts,
            length,
        })
    }

    /// Returns the length in bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Reads the payload.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(crate) fn read(&self, connection: &Connection) -> Result<Vec<u8>, StoreError> {
        match self.parts {
            Some(first) => read(connection, first, self.length),
            None => Ok(columns::blob(self.row, self.column)?.to_vec()),
        }
    }

    /// Reads the payload, unless it is larger than `most` bytes.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(crate) fn read_up_to(
        &self,
        connection: &Connection,
        most: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let fits = self.length <= most;
        fits.then(|| self.read(connection)).transpose()
    }
}

/// Reads a payload of `length` bytes.
fn read(connection: &Connection, first: i64, length: usize) -> Result<Vec<u8>, StoreError> {
    let mut payload = Vec::with_capacity(length);
    for_each(connection, first, |bytes| payload.extend_from_slice(bytes))?;
    Ok(payload)
}

/// Computes the digest of the parts that are stored.
pub(crate) fn digest(connection: &Connection, first: i64) -> Result<TransferDigest, StoreError> {
    let mut digest = TransferDigest::default();
    for_each(connection, first, |bytes| digest.update(bytes))?;
    Ok(digest)
}

fn for_each(
    connection: &Connection,
    first: i64,
    mut take: impl FnMut(&[u8]),
) -> Result<(), StoreError> {
    let numbers = numbers(first);
    let mut statement = connection.prepare_cached(
        "SELECT bytes FROM return_parts WHERE number >= ?1 AND number < ?2 ORDER BY number",
    )?;
    let mut found = statement.query([numbers.start, numbers.end])?;
    while let Some(row) = found.next()? {
        take(columns::blob(row, 0)?);
    }
    Ok(())
}

/// Removes the parts of a partition that belong to nothing, and returns the payloads of which some parts are
/// stored.
pub(crate) fn settle(connection: &Connection) -> Result<Vec<StoredTransfer>, StoreError> {
    let whole =
        "DELETE FROM transfers WHERE first IN (SELECT parts FROM returns WHERE parts IS NOT NULL)";
    let strays = "DELETE FROM return_parts WHERE number - number % ?1 NOT IN
         (SELECT parts FROM returns WHERE parts IS NOT NULL UNION ALL SELECT first FROM transfers)";
    let removed = connection
        .execute(whole, [])
        .and_then(|_| connection.execute(strays, [MAX_PARTS]));
    match removed.map_err(StoreError::from) {
        Ok(0) => {}
        Ok(removed) => tracing::debug!(removed, "parts of returns that never came are removed"),
        // A master starts on a full disk too.
        Err(StoreError::Full) => {}
        Err(error) => return Err(error),
    }
    let mut statement = connection.prepare(
        "SELECT first, jid, minion, id, total,
             (SELECT count(*) FROM return_parts WHERE number >= first AND number < first + ?1),
             (SELECT coalesce(sum(length(bytes)), 0) FROM return_parts WHERE number >= first AND number < first + ?1)
         FROM transfers",
    )?;
    let mut found = statement.query([MAX_PARTS])?;
    let mut transfers = Vec::new();
    while let Some(row) = found.next()? {
        let unsigned = |column| row.get(column).map(|number: i64| number.unsigned_abs());
        transfers.push(StoredTransfer {
            minion: columns::minion(row, 2)?,
            job: row.get(1)?,
            id: TransferId(row.get(3)?),
            total: unsigned(4)?,
            first: row.get(0)?,
            parts: row.get(5)?,
            received: unsigned(6)?,
        });
    }
    Ok(transfers)
}

/// Returns the number of the last part of a partition, or 0.
pub(crate) fn last(connection: &Connection) -> Result<i64, StoreError> {
    let max = "SELECT max(number) FROM return_parts";
    let last: Option<i64> = connection.query_row(max, [], |row| row.get(0))?;
    Ok(last.unwrap_or(0))
}
