//! The destination `sqlite3`: a database of SQLite on the master's disk.
//!
//! A job has its jid, a return its jid and minion, and an event its number and tag as the key of its row, so that a record that
//! comes again changes nothing.

mod job_cache;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};
use saline_protocol::transport::Context;

use crate::blocking_delivery::BlockingDelivery;
use crate::columns::{flag, json, number, text};
use crate::{Content, DeliveryError, Destination, Record};
pub(crate) use job_cache::Sqlite3Jobs;

/// How long a delivery waits for another program that writes to the database.
const BUSY: Duration = Duration::from_secs(10);

/// What marks a database as one of these (`application_id`).
const APPLICATION: i32 = i32::from_be_bytes(*b"SALr");

/// The migrations, in their order: `user_version` is the number of those that were made.
const MIGRATIONS: [&str; 2] = [
    "
    CREATE TABLE jobs (
        jid       TEXT NOT NULL PRIMARY KEY,
        published TEXT NOT NULL,
        fun       TEXT NOT NULL,
        arg       TEXT,
        tgt       TEXT NOT NULL,
        tgt_type  TEXT NOT NULL,
        user      TEXT NOT NULL,
        operator  TEXT NOT NULL,
        minions   TEXT
    );
    CREATE TABLE returns (
        jid      TEXT    NOT NULL,
        minion   TEXT    NOT NULL,
        received TEXT    NOT NULL,
        fun      TEXT    NOT NULL,
        fun_args TEXT,
        return   TEXT,
        retcode  INTEGER NOT NULL,
        success  INTEGER NOT NULL,
        PRIMARY KEY (jid, minion)
    );
    CREATE INDEX returns_of_minion ON returns (minion, received);
    CREATE TABLE events (
        number INTEGER NOT NULL PRIMARY KEY,
        fired  TEXT    NOT NULL,
        tag    TEXT    NOT NULL,
        origin TEXT    NOT NULL,
        data   TEXT    NOT NULL
    );
    CREATE INDEX events_of_tag ON events (tag, number);
    ",
    // A kept event and a publication or return come from two stores, which may give them one number.
    "
    ALTER TABLE events RENAME TO events_of_version_1;
    DROP INDEX events_of_tag;
    CREATE TABLE events (
        number INTEGER NOT NULL,
        fired  TEXT    NOT NULL,
        tag    TEXT    NOT NULL,
        origin TEXT    NOT NULL,
        data   TEXT    NOT NULL,
        PRIMARY KEY (number, tag)
    );
    CREATE INDEX events_of_tag ON events (tag, number);
    INSERT INTO events SELECT number, fired, tag, origin, data FROM events_of_version_1;
    DROP TABLE events_of_version_1;
    ",
];

/// A database of SQLite.
#[derive(Debug)]
pub(crate) struct Sqlite3 {
    path: PathBuf,
    delivery: BlockingDelivery,
    /// None before the first delivery, and after one that failed. Only the one delivery that is under way locks it.
    open: Arc<Mutex<Option<OpenDatabase>>>,
}

/// A database, and the file that it is in.
#[derive(Debug)]
struct OpenDatabase {
    connection: Connection,
    /// Device and inode.
    file: (u64, u64),
}

impl Sqlite3 {
    pub(crate) fn new(path: PathBuf, context: Context) -> Self {
        Self {
            path,
            delivery: BlockingDelivery::new(context),
            open: Arc::default(),
        }
    }
}

#[async_trait]
impl Destination for Sqlite3 {
    async fn deliver(&mut self, records: &[Record]) -> Result<(), DeliveryError> {
        let (path, open) = (self.path.clone(), Arc::clone(&self.open));
        let work = move |records: &[Record]| {
            let mut place = open.lock().unwrap_or_else(PoisonError::into_inner);
            // Taken out, so that after a failure the file is opened again.
            let mut database = match place.take() {
                Some(database) if database.is_at(&path) => database,
                _ => OpenDatabase::open(&path)?,
            };
            store(&mut database.connection, records)?;
            *place = Some(database);
            Ok(())
        };
        let stored = self.delivery.deliver(records, work).await;
        stored.map_err(|why| DeliveryError::Away(format!("{}: {why}", self.path.display())))
    }
}

impl OpenDatabase {
    fn open(path: &Path) -> Result<Self, String> {
        let mut options = saline_private_files::options();
        options.read(true).write(true).create(true);
        let found = saline_private_files::open(path, &options).and_then(|file| file.metadata());
        let found = found.map_err(|error| error.to_string())?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags);
        let mut database = Self {
            connection: connection.map_err(of_sqlite)?,
            file: (found.dev(), found.ino()),
        };
        database.connection.busy_timeout(BUSY).map_err(of_sqlite)?;
        migrate(&mut database.connection)?;
        match database.is_at(path) {
            true => Ok(database),
            false => Err("it was exchanged while it was opened".to_owned()),
        }
    }

    /// Whether its file is still at the path: it may have been moved away, and another one put there.
    fn is_at(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == self.file)
    }
}

/// Brings the tables to the present version.
fn migrate(connection: &mut Connection) -> Result<(), String> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let transaction = transaction.map_err(of_sqlite)?;
    let pragma = |name| transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = pragma("application_id").map_err(of_sqlite)?;
    let version = pragma("user_version").map_err(of_sqlite)?;
    let has_tables = transaction
        .prepare("SELECT 1 FROM sqlite_schema LIMIT 1")
        .and_then(|mut found| found.exists([]));
    if application != i64::from(APPLICATION) && has_tables.map_err(of_sqlite)? {
        return Err("it is a database of another program: name another file".to_owned());
    }
    let made = usize::try_from(version).unwrap_or(usize::MAX);
    let missing = MIGRATIONS.get(made..).ok_or_else(|| {
        format!(
            "its tables have version {version}, and this master knows {}: a later one made them",
            MIGRATIONS.len()
        )
    })?;
    for migration in missing {
        transaction.execute_batch(migration).map_err(of_sqlite)?;
    }
    let version = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    transaction
        .pragma_update(None, "application_id", APPLICATION)
        .and_then(|()| transaction.pragma_update(None, "user_version", version))
        .and_then(|()| transaction.commit())
        .map_err(of_sqlite)
}

fn store(connection: &mut Connection, records: &[Record]) -> Result<(), String> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let transaction = transaction.map_err(of_sqlite)?;
    for record in records {
        insert(&transaction, record).map_err(of_sqlite)?;
    }
    transaction.commit().map_err(of_sqlite)
}

fn insert(transaction: &Transaction<'_>, record: &Record) -> rusqlite::Result<usize> {
    match &record.content {
        Content::Job { jid, data } => transaction
            .prepare_cached(
                "INSERT INTO jobs (jid, published, fun, arg, tgt, tgt_type, user, operator, minions)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                jid,
                record.time(),
                text(data, "fun"),
                json(data, "arg"),
                text(data, "tgt"),
                text(data, "tgt_type"),
                text(data, "user"),
                text(data, "operator"),
                json(data, "minions"),
            ]),
        // The store has one return of a minion for a job, and replaces that of a copy of the minion which took the run for
        // interrupted. Without the Z, times sort as texts, however many digits their seconds have.
        Content::Return { jid, minion, data } => transaction
            .prepare_cached(
                "INSERT INTO returns (jid, minion, received, fun, fun_args, return, retcode, success)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT (jid, minion) DO UPDATE
                 SET (received, return, retcode, success) =
                     (excluded.received, excluded.return, excluded.retcode, excluded.success)
                 WHERE rtrim(excluded.received, 'Z') > rtrim(received, 'Z')",
            )?
            .execute(params![
                jid,
                minion,
                record.time(),
                text(data, "fun"),
                json(data, "fun_args"),
                json(data, "return"),
                number(data, "retcode"),
                flag(data, "success"),
            ]),
        Content::Event { tag, origin, data } => transaction
            .prepare_cached(
                "INSERT INTO events (number, fired, tag, origin, data)
                 VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                record.number,
                record.time(),
                tag,
                crate::columns::json_of(origin),
                crate::columns::json_of(data),
            ]),
    }
}

fn of_sqlite(error: rusqlite::Error) -> String {
    error.to_string()
}
