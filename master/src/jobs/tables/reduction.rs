//! Reduces a partition to the jobs that are under way in it, so that one job which runs for weeks keeps its own rows and
//! not a file of returns.
//!
//! The rows are copied in one transaction into a file beside the partition, which gets its final name when it is synced. So a
//! crash leaves the partition alone, or both files: a start takes the file that was reduced more often, and deletes the other.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, params};
use saline_data::{Packed, Value};

use super::return_parts;
use crate::disk::StoreError;
use crate::disk::partitions::Connections;

/// The text that replaces a payload that is not kept.
const REMOVED: &str =
    "(removed before its job was over, because of keep_jobs_seconds or job_store_size)";

/// The largest payload, in bytes, that is kept however old it is.
const SMALL: i64 = 256;

/// The tables of which all rows of a job are kept.
const KEPT_TABLES: [&str; 6] = [
    "jobs",
    "metadata",
    "job_returners",
    "job_secrets",
    "state_changes",
    "transfers",
];

/// Reduces a partition to some of its jobs. Their returns with a receipt number of at least `from` keep their payloads;
/// older ones keep only [small](SMALL) payloads.
///
/// # Errors
/// When a file cannot be read or written, as on a full disk; the partition is what it was.
pub(crate) fn reduce(
    connections: &mut Connections,
    start: i64,
    jobs: &[i64],
    from: i64,
) -> Result<(), StoreError> {
    let partitions = Arc::clone(connections.partitions());
    let before = partitions.path(start);
    let reduced = partitions
        .begin_reduction(start)
        .and_then(|reduced| copy(reduced, &before, jobs, from))
        .and_then(|()| partitions.finish_reduction(start));
    if let Err(error) = reduced {
        // If this fails, the next start deletes the unfinished file.
        let _ = partitions.delete_unfinished(start);
        return Err(error);
    }
    connections.forget(start);
    Ok(())
}

/// Copies the rows of the jobs from the file `before` into a new one with empty tables, and closes that one.
fn copy(mut to: Connection, before: &Path, jobs: &[i64], from: i64) -> Result<(), StoreError> {
    let folder = to.path().map(Path::new).and_then(Path::parent);
    let before = folder
        .unwrap_or(Path::new("."))
        .join(before.file_name().unwrap_or_default());
    let before = before.to_str();
    let before = before.ok_or_else(|| StoreError::corrupt("a path in UTF-8", "another one"))?;
    to.execute("ATTACH DATABASE ?1 AS before", [before])?;
    let transaction = to.transaction()?;
    for job in jobs {
        copy_job(&transaction, *job, from)?;
    }
    transaction.commit()?;
    to.execute("DETACH DATABASE before", [])?;
    // Closing would move the log into the file too, and tell nobody of an error, such as a full disk.
    let is_busy: bool =
        to.query_row("PRAGMA main.wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if is_busy {
        return Err(StoreError::corrupt(
            "a log that nobody else reads",
            "another one",
        ));
    }
    to.close().map_err(|(_, error)| error.into())
}

fn copy_job(connection: &Connection, job: i64, from: i64) -> Result<(), StoreError> {
    for table in KEPT_TABLES {
        let copy = format!("INSERT INTO main.{table} SELECT * FROM before.{table} WHERE jid = ?1");
        connection.prepare_cached(&copy)?.execute([job])?;
    }
    connection
        .prepare_cached(
            "INSERT INTO main.returns (receipt, jid, minion, retcode, success, payload, parts)
             SELECT receipt, jid, minion, retcode, success,
                 CASE WHEN receipt >= ?2 OR (parts IS NULL AND length(payload) <= ?3)
                     THEN payload ELSE ?4 END,
                 CASE WHEN receipt >= ?2 THEN parts END
             FROM before.returns WHERE jid = ?1 ORDER BY receipt",
        )?
        .execute(params![
            job,
            from,
            SMALL,
            Packed::pack(&Value::from(REMOVED)).as_bytes()
        ])?;
    // The parts of the returns that keep their payloads, and of those that are still coming.
    connection
        .prepare_cached(
            "INSERT INTO main.return_parts (number, bytes)
             SELECT number, bytes FROM
                 (SELECT parts AS first_part FROM main.returns WHERE jid = ?1 AND parts IS NOT NULL
                  UNION SELECT first FROM main.transfers WHERE jid = ?1)
             CROSS JOIN before.return_parts
             WHERE number >= first_part AND number < first_part + ?2",
        )?
        .execute([job, return_parts::MAX_PARTS])?;
    Ok(())
}
