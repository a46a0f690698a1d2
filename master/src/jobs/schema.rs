//! The database file: its folder, its settings, its tables and their migrations.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::StoreError;

/// How long one connection waits for the lock of another. Only a copy or an operator's shell can
/// hold it: the writer is alone, and in WAL mode readers block no one.
const BUSY: Duration = Duration::from_secs(10);

/// The size to which the write-ahead log is cut after it was emptied.
const LOG_LIMIT: i64 = 64 * 1024 * 1024;

/// The number of prepared statements that a connection caches.
const STATEMENTS: usize = 64;

/// Every step from an empty file to the present form. A step is never changed once it is released:
/// another is put after it.
///
/// `offers` is read and written by its key alone, so it is a tree by that key. `returns` and
/// `outcomes` hold values of any size, which such a tree carries badly. `offers_open` holds only
/// what can still be begun: it stays small however many jobs are kept.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE jobs (
        jid        TEXT    NOT NULL PRIMARY KEY,
        fun        TEXT    NOT NULL,
        arg        BLOB    NOT NULL,
        tgt        TEXT    NOT NULL,
        tgt_type   TEXT    NOT NULL,
        user       TEXT    NOT NULL,
        created    INTEGER NOT NULL,
        expires    INTEGER NOT NULL,
        request_id BLOB    NOT NULL
    );
    CREATE INDEX jobs_created ON jobs (created);
    CREATE TABLE offers (
        jid     TEXT    NOT NULL,
        minion  TEXT    NOT NULL,
        state   INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        PRIMARY KEY (jid, minion)
    ) WITHOUT ROWID;
    CREATE INDEX offers_open ON offers (minion, jid) WHERE state IN (0, 2);
    CREATE TABLE returns (
        jid      TEXT    NOT NULL,
        minion   TEXT    NOT NULL,
        retcode  INTEGER NOT NULL,
        success  INTEGER NOT NULL,
        payload  BLOB    NOT NULL,
        received INTEGER NOT NULL,
        PRIMARY KEY (jid, minion)
    );
    CREATE TABLE outcomes (
        request_id BLOB    NOT NULL PRIMARY KEY,
        reply      BLOB    NOT NULL,
        created    INTEGER NOT NULL
    );
    CREATE INDEX outcomes_created ON outcomes (created);
"];

/// Opens the file for writing; creates it (0600) and its folder (0700) as needed, and migrates its
/// tables.
pub(super) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| StoreError::io(folder, error))?;
    }
    // SQLite gives its log and its shared memory the permissions of the file.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| StoreError::io(path, error))?;
    file.set_permissions(Permissions::from_mode(0o600))
        .map_err(|error| StoreError::io(path, error))?;
    // Closing any descriptor of the file drops this process's locks on it, so this happens before
    // SQLite takes its locks.
    drop(file);

    let mut connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(|error| StoreError::open(path, error))?;
    settle(&mut connection).map_err(|error| match error {
        StoreError::Database(source) => StoreError::Open {
            path: path.to_owned(),
            source,
        },
        other => other,
    })?;
    Ok(connection)
}

/// Opens the file for reading. The writer must have it open.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let open = || {
        let connection = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        prepare(&connection)?;
        Ok(connection)
    };
    open().map_err(|error| StoreError::open(path, error))
}

/// Makes the settings that every connection has.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Without it, the planner looks at the values that are bound, and a statement about `offers`, which
    // has a partial index, is parsed and planned anew each time it is run: a third of a return's cost.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn settle(connection: &mut Connection) -> Result<(), StoreError> {
    prepare(connection)?;
    if version(connection)?.is_none() {
        // Takes effect only before the first table is made; freed pages can then be given back.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_LIMIT, |_| Ok(()))?;
    migrate(connection)
}

/// Takes the steps that are missing. A file in the present form is only read: a master starts on a
/// full disk too.
fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let found = version(&transaction)?;
    let done = match usize::try_from(found.unwrap_or(0)) {
        Ok(done) if done <= MIGRATIONS.len() => done,
        _ => {
            return Err(StoreError::TooNew {
                found: found.unwrap_or(0),
                known: MIGRATIONS.len() as i64,
            });
        }
    };
    if done == MIGRATIONS.len() {
        return Ok(());
    }
    for step in &MIGRATIONS[done..] {
        transaction.execute_batch(step)?;
    }
    let write = match found {
        Some(_) => "UPDATE meta SET version = ?1",
        None => "INSERT INTO meta (version) VALUES (?1)",
    };
    transaction.execute(
        "CREATE TABLE IF NOT EXISTS meta (version INTEGER NOT NULL)",
        [],
    )?;
    transaction.execute(write, [MIGRATIONS.len() as i64])?;
    transaction.commit()?;
    Ok(())
}

/// The version of the file; none when it is new.
fn version(connection: &Connection) -> Result<Option<i64>, StoreError> {
    if !connection.table_exists(None, "meta")? {
        return Ok(None);
    }
    let version = connection
        .query_row("SELECT version FROM meta", [], |row| row.get(0))
        .optional()?;
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_private_and_safe_against_power_loss() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache/jobs.sqlite");
        let connection = open_writer(&path).unwrap();
        let text = |name: &str| {
            connection
                .pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
                .unwrap()
        };
        assert_eq!(text("journal_mode"), "wal".to_owned().into());
        assert_eq!(text("synchronous"), 2_i64.into());
        assert_eq!(text("auto_vacuum"), 2_i64.into());
        for name in ["jobs.sqlite", "jobs.sqlite-wal", "jobs.sqlite-shm"] {
            let mode = std::fs::metadata(path.with_file_name(name)).unwrap();
            assert_eq!(mode.permissions().mode() & 0o777, 0o600, "{name}");
        }
        let mode = std::fs::metadata(path.parent().unwrap()).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_file_of_a_later_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.sqlite");
        let connection = open_writer(&path).unwrap();
        connection
            .execute("UPDATE meta SET version = 99", [])
            .unwrap();
        drop(connection);
        let error = open_writer(&path).unwrap_err();
        assert!(
            matches!(error, StoreError::TooNew { found: 99, .. }),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_is_no_store_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.sqlite");
        std::fs::write(&path, vec![b'x'; 8192]).unwrap();
        let error = open_writer(&path).unwrap_err().to_string();
        assert!(error.contains("jobs.sqlite"), "{error}");
        assert!(error.contains("not a database"), "{error}");
    }

    #[test]
    fn opening_again_writes_nothing_so_a_full_disk_does_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.sqlite");
        drop(open_writer(&path).unwrap());
        let connection = open_writer(&path).unwrap();
        let log = std::fs::metadata(path.with_extension("sqlite-wal")).unwrap();
        assert_eq!(log.len(), 0);
        let rows: i64 = connection
            .query_row("SELECT count(*) FROM meta", [], |row| row.get(0))
            .unwrap();
        assert_eq!(rows, 1);
    }
}
