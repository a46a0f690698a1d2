//! Opens a file of a store, with the settings that every file has, and gives it its tables.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::StoreError;

/// How long one connection waits for the lock of another. Only a copy or an operator's shell can
/// hold it: the writer is alone, and in WAL mode readers block no one.
pub(crate) const BUSY: Duration = Duration::from_secs(10);

/// The size to which the write-ahead log is cut after it was emptied.
const LOG_LIMIT: i64 = 64 * 1024 * 1024;

/// The size of a page of a partition in bytes. A commit writes whole pages into the log, so that a return that comes alone
/// costs two of them, and large ones would mostly hold what was written before.
const PAGE: i64 = 1024;

/// The number of prepared statements that a connection caches.
const STATEMENTS: usize = 32;

/// The size in bytes of what a connection wrote or read at once, from which its cache is given back.
pub(crate) const LARGE: usize = 1024 * 1024;

/// The cache of a connection that copies and checks, in bytes: it reads everything once.
const UPKEEP_CACHE: usize = 256 * 1024;

/// SQLite's application id of a job store. Stores from before the first release have another one.
const APPLICATION: i32 = i32::from_be_bytes(*b"SALs");

/// The version of the tables, which is a file's `user_version`.
const VERSION: i64 = 1;

/// What the files of a store hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contents {
    /// The store's name in the log.
    pub(crate) name: &'static str,
    /// The statements that create the tables of a file.
    pub(crate) tables: &'static str,
}

/// The use of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// To create the file.
    Create,
    /// To write to a file that exists.
    Write,
    /// To read from a file that exists.
    Read,
    /// To copy and check a file that exists, and to move its log into it.
    Upkeep,
}

/// Opens a partition with a cache of `cache` bytes, or a quarter of it for reading. For writing, a file that is
/// created gets the tables of `contents`, and is private (0600).
pub(crate) fn open(
    path: &Path,
    access: Access,
    cache: usize,
    contents: &Contents,
) -> Result<Connection, StoreError> {
    if access == Access::Create {
        create_file(path).map_err(|error| StoreError::io(path, error))?;
    }
    let mut connection = connect(path)?;
    let settled = settle(&mut connection, path, access, cache, contents.tables);
    settled.map_err(|error| named(path, error))?;
    Ok(connection)
}

/// Opens a file that is the only one of its kind, and whose log no other thread empties. It is created (0600) as needed.
pub(crate) fn open_alone(
    path: &Path,
    cache: usize,
    tables: &str,
) -> Result<Connection, StoreError> {
    create_file(path).map_err(|error| StoreError::io(path, error))?;
    let mut connection = connect(path)?;
    let settled = settle(&mut connection, path, Access::Write, cache, tables);
    settled.map_err(|error| named(path, error))?;
    connection
        .pragma_update_and_check(None, "wal_autocheckpoint", 1_000, |_| Ok(()))
        .map_err(|error| StoreError::open(path, error))?;
    Ok(connection)
}

/// Opens a file that exists and is no link.
fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    // SQLite follows no link in the whole path, and a folder above may be reached over one.
    let folder = path.parent().unwrap_or(Path::new("."));
    let folder = folder
        .canonicalize()
        .map_err(|error| StoreError::io(folder, error))?;
    let real = folder.join(path.file_name().unwrap_or_default());
    Connection::open_with_flags(real, flags).map_err(|error| StoreError::open(path, error))
}

fn named(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Database(source) => StoreError::Open {
            path: path.to_owned(),
            source,
        },
        other => other,
    }
}

/// Creates the file before SQLite opens it, which gives its log and its shared memory the same
/// permissions. Closing any descriptor of the file drops this process's locks on it, so this happens
/// before SQLite takes its locks.
fn create_file(path: &Path) -> std::io::Result<()> {
    let mut options = saline_private_files::options();
    options.read(true).write(true).create(true).truncate(false);
    let file = saline_private_files::open(path, &options)?;
    file.set_permissions(Permissions::from_mode(0o600))
}

fn settle(
    connection: &mut Connection,
    path: &Path,
    access: Access,
    cache: usize,
    tables: &str,
) -> Result<(), StoreError> {
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Without it, the planner looks at the values that are bound, and a statement about a table that has
    // a partial index is planned again each time it is run.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // What writes profits most: its pages are needed again soon.
    let cache = match access {
        Access::Create | Access::Write => cache,
        Access::Read => cache / 4,
        Access::Upkeep => UPKEEP_CACHE,
    };
    let kib = i64::try_from(cache / 1024).unwrap_or(i64::MAX);
    connection.pragma_update(None, "cache_size", -kib)?;
    match access {
        Access::Read => return Ok(connection.pragma_update(None, "query_only", true)?),
        Access::Upkeep => return Ok(()),
        Access::Create | Access::Write => {}
    }
    if access == Access::Create {
        // It has no effect on a file that has tables.
        connection.pragma_update(None, "page_size", PAGE)?;
    }
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_LIMIT, |_| Ok(()))?;
    // Another thread empties the log.
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    create_tables(connection, path, tables)
}

/// Gives an empty file its tables. A file that has them is only read: a master starts on a full disk too.
fn create_tables(connection: &mut Connection, path: &Path, tables: &str) -> Result<(), StoreError> {
    let found = number(connection, "user_version")?;
    let is_empty = found == 0 && number(connection, "schema_version")? == 0;
    if !is_empty {
        let ours = number(connection, "application_id")? == i64::from(APPLICATION);
        return match found {
            _ if !ours => Err(StoreError::NoStore(path.to_owned())),
            VERSION => Ok(()),
            _ => Err(StoreError::OtherVersion {
                path: path.to_owned(),
                found,
                known: VERSION,
            }),
        };
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(tables)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    Ok(transaction.commit()?)
}

/// Writes a copy of what the connection sees into the file `to` (0600), which must not exist.
pub(crate) fn copy_into(connection: &Connection, to: &Path) -> Result<(), StoreError> {
    // An empty file is taken as one that does not exist, and keeps its permissions.
    create_file(to).map_err(|error| StoreError::io(to, error))?;
    let name = to.to_str().ok_or_else(|| {
        let error = std::io::Error::other("the path is no UTF-8");
        StoreError::io(to, error)
    })?;
    connection.execute("VACUUM INTO ?1", [name])?;
    let synced = std::fs::File::open(to).and_then(|file| file.sync_all());
    synced.map_err(|error| StoreError::io(to, error))
}

/// Gives the memory of the connection's cache back, after large data went through it.
pub(crate) fn shrink_cache(connection: &Connection) {
    if let Err(error) = connection.execute_batch("PRAGMA shrink_memory") {
        tracing::debug!(%error, "the cache of the job store was not given back");
    }
}

fn number(connection: &Connection, pragma: &str) -> Result<i64, StoreError> {
    Ok(connection.pragma_query_value(None, pragma, |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::jobs::tables::schema::JOBS;

    const CACHE: usize = 1 << 20;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("20260101000000000000.sqlite");
        (folder, path)
    }

    #[test]
    fn the_file_is_private_and_safe_against_power_loss() {
        let (_folder, path) = place();
        let connection = open(&path, Access::Create, CACHE, &JOBS).unwrap();
        let text = |name: &str| {
            connection
                .pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
                .unwrap()
        };
        assert_eq!(text("journal_mode"), "wal".to_owned().into());
        assert_eq!(text("synchronous"), 2_i64.into());
        assert_eq!(text("cache_size"), (-1024_i64).into());
        for name in ["sqlite", "sqlite-wal", "sqlite-shm"] {
            let mode = std::fs::metadata(path.with_extension(name)).unwrap();
            assert_eq!(mode.permissions().mode() & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn a_store_is_no_link_but_may_be_reached_over_one() {
        let (folder, path) = place();
        drop(open(&path, Access::Create, CACHE, &JOBS).unwrap());
        let link = folder.path().join("20260202000000000000.sqlite");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for access in [Access::Create, Access::Write, Access::Read, Access::Upkeep] {
            assert!(open(&link, access, CACHE, &JOBS).is_err(), "{access:?}");
        }
        let place = tempfile::tempdir().unwrap();
        let elsewhere = place.path().join("jobs");
        std::os::unix::fs::symlink(folder.path(), &elsewhere).unwrap();
        let over_a_link = elsewhere.join(path.file_name().unwrap());
        assert!(open(&over_a_link, Access::Write, CACHE, &JOBS).is_ok());
    }

    #[test]
    fn a_file_of_another_version_is_refused_and_stays_as_it_is() {
        let (_folder, path) = place();
        let connection = open(&path, Access::Create, CACHE, &JOBS).unwrap();
        for version in [0, 2, 99] {
            connection
                .pragma_update(None, "user_version", version)
                .unwrap();
            let error = open(&path, Access::Write, CACHE, &JOBS).unwrap_err();
            assert!(
                matches!(error, StoreError::OtherVersion { found, .. } if found == version),
                "{error}"
            );
            assert_eq!(number(&connection, "user_version").unwrap(), version);
        }
        // As before the first release.
        let before = i32::from_be_bytes(*b"SALj");
        for version in 1..=4 {
            connection
                .pragma_update(None, "application_id", before)
                .unwrap();
            connection
                .pragma_update(None, "user_version", version)
                .unwrap();
            let error = open(&path, Access::Write, CACHE, &JOBS).unwrap_err();
            assert!(matches!(error, StoreError::NoStore(_)), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_no_store_is_refused_by_name() {
        let (_folder, path) = place();
        std::fs::write(&path, vec![b'x'; 8192]).unwrap();
        let error = open(&path, Access::Write, CACHE, &JOBS)
            .unwrap_err()
            .to_string();
        assert!(error.contains("20260101000000000000.sqlite"), "{error}");
        assert!(error.contains("not a database"), "{error}");

        let (_folder, path) = place();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE jobs (a)").unwrap();
        drop(other);
        let error = open(&path, Access::Write, CACHE, &JOBS).unwrap_err();
        assert!(matches!(error, StoreError::NoStore(_)), "{error}");
    }

    #[test]
    fn opening_again_writes_nothing_so_a_full_disk_does_not_matter() {
        let (_folder, path) = place();
        drop(open(&path, Access::Create, CACHE, &JOBS).unwrap());
        let _connection = open(&path, Access::Write, CACHE, &JOBS).unwrap();
        let log = std::fs::metadata(path.with_extension("sqlite-wal"));
        assert!(log.map_or(0, |log| log.len()) == 0);
    }
}
