//! The file of minions: a row for the record of each.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, params};
use saline_messages::{MasterTime, MinionId, StartId, decode, encode};

use crate::disk::{StoreError, columns, file};
use crate::jobs::memory::minion_record::MinionRecord;

/// The file's name in the folder of the store.
pub(in crate::jobs) const FILE: &str = "minions.sqlite";

/// The tables of the file of minions. `key` is the key to which the minion's offers are made. `expired_until` is the last
/// expiry that starts of the master have found passed: what was told of such jobs stays true if its clock is set back.
/// `is_copy` is 1 in a copy of the store, until the minion has reconciled with the master that goes on from it, and `copies` has
/// when it was made, until a master has started with it.
const MINIONS: &str = "
    CREATE TABLE minions (
        id             TEXT    NOT NULL PRIMARY KEY,
        start          BLOB    NOT NULL,
        duplicate_seen INTEGER NOT NULL,
        expiry_acked_until   INTEGER NOT NULL,
        gaps           BLOB    NOT NULL,
        heartbeats_noted    INTEGER NOT NULL,
        key            BLOB,
        vouched        INTEGER NOT NULL,
        is_copy        INTEGER NOT NULL
    );
    CREATE TABLE master_starts (
        expired_until INTEGER NOT NULL
    );
    CREATE TABLE copies (
        made  INTEGER NOT NULL,
        ahead INTEGER NOT NULL
    );
";

/// The cache of the connection, in bytes.
const CACHE: usize = 512 * 1024;

/// Opens the file at `path`, which is created (0600) as needed.
pub(in crate::jobs) fn open(path: &Path) -> Result<Connection, StoreError> {
    file::open_alone(path, CACHE, MINIONS)
}

/// Writes the last expiry that a start of the master has found passed.
pub(in crate::jobs) fn write_expired_until(
    connection: &Connection,
    until: MasterTime,
) -> Result<(), StoreError> {
    let until = columns::from_time(until);
    let changed = connection.execute("UPDATE master_starts SET expired_until = ?1", [until])?;
    if changed == 0 {
        connection.execute("INSERT INTO master_starts VALUES (?1)", [until])?;
    }
    Ok(())
}

/// Reads the last expiry that earlier starts of the master found passed.
pub(in crate::jobs) fn read_expired_until(
    connection: &Connection,
) -> Result<MasterTime, StoreError> {
    let sql = "SELECT max(expired_until) FROM master_starts";
    let until: Option<i64> = connection.query_row(sql, [], |row| row.get(0))?;
    Ok(MasterTime::try_from(until.unwrap_or(0)).unwrap_or(0))
}

/// Writes records in one transaction.
pub(in crate::jobs) fn write<'r>(
    connection: &mut Connection,
    records: impl IntoIterator<Item = (&'r MinionId, &'r MinionRecord)>,
) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    for (minion, record) in records {
        transaction
            .prepare_cached(
                "INSERT INTO minions (id, start, duplicate_seen, expiry_acked_until, gaps, heartbeats_noted, key, vouched,
                     is_copy)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                 ON CONFLICT (id) DO UPDATE SET start = ?2, duplicate_seen = ?3,
                     expiry_acked_until = ?4, gaps = ?5, heartbeats_noted = ?6, key = ?7, vouched = ?8,
                     is_copy = ?9",
            )?
            .execute(params![
                minion.as_str(),
                record.start.0,
                columns::from_time(record.duplicate_seen),
                columns::from_time(record.expiry_acked_until),
                encode(&record.gaps),
                columns::from_time(record.heartbeats_noted),
                record.key,
                columns::from_time(record.vouched),
                record.is_copy,
            ])?;
    }
    transaction.commit()?;
    Ok(())
}

/// Notes in the copy of the file at `path` that its records are copies.
pub(in crate::jobs) fn mark_copies(path: &Path) -> Result<(), StoreError> {
    open(path)?.execute("UPDATE minions SET is_copy = 1", [])?;
    Ok(())
}

/// The end of the making of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jobs) struct CopyMade {
    /// The master's time.
    pub(in crate::jobs) at: MasterTime,
    /// By how many milliseconds that was ahead of the machine's clock.
    pub(in crate::jobs) ahead: MasterTime,
}

/// Notes in the copy of the file at `path` when the copy of the store was made.
pub(in crate::jobs) fn note_copy(path: &Path, made: CopyMade) -> Result<(), StoreError> {
    let values = [made.at, made.ahead].map(columns::from_time);
    open(path)?.execute("INSERT INTO copies VALUES (?1, ?2)", values)?;
    Ok(())
}

/// Returns when the copy was made that the file is, if no master has started with it yet.
pub(in crate::jobs) fn read_copy(connection: &Connection) -> Result<Option<CopyMade>, StoreError> {
    let mut statement =
        connection.prepare("SELECT made, ahead FROM copies ORDER BY made DESC LIMIT 1")?;
    let mut found = statement.query([])?;
    let Some(row) = found.next()? else {
        return Ok(None);
    };
    Ok(Some(CopyMade {
        at: columns::time(row, 0)?,
        ahead: columns::time(row, 1)?,
    }))
}

/// Notes a start of the master: the last expiry that it has found passed, and that the file is no copy without a master.
pub(in crate::jobs) fn write_start(
    connection: &mut Connection,
    expired_until: MasterTime,
) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    write_expired_until(&transaction, expired_until)?;
    transaction.execute("DELETE FROM copies", [])?;
    Ok(transaction.commit()?)
}

/// Reads all records.
pub(in crate::jobs) fn read(
    connection: &Connection,
) -> Result<HashMap<MinionId, MinionRecord>, StoreError> {
    let mut statement = connection.prepare(
        "SELECT id, start, duplicate_seen, expiry_acked_until, gaps, heartbeats_noted, key, vouched, is_copy FROM minions",
    )?;
    let mut found = statement.query([])?;
    let mut records = HashMap::new();
    while let Some(row) = found.next()? {
        let gaps = decode(columns::blob(row, 4)?);
        let record = MinionRecord {
            start: StartId(row.get(1)?),
            duplicate_seen: columns::time(row, 2)?,
            expiry_acked_until: columns::time(row, 3)?,
            heartbeats_noted: columns::time(row, 5)?,
            key: row.get(6)?,
            vouched: columns::time(row, 7)?,
            is_copy: row.get(8)?,
            gaps: gaps
                .map_err(|_| StoreError::corrupt("the gaps of a minion's record", "others"))?,
        };
        records.insert(columns::minion(row, 0)?, record);
    }
    Ok(records)
}
