//! Reads jobs and returns back from a database of SQLite.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, Row, params};
use saline_data::Value;
use saline_protocol::transport::Context;
use tokio::sync::OwnedSemaphorePermit;

use super::{OpenDatabase, of_sqlite};
use crate::cached_job::{
    CachedJob, CachedReturn, PAGE_BYTES, PAGE_ROWS, read_ids, read_json, read_value,
};

/// The columns of a job, in the order in which [`job`] reads them.
const COLUMNS: &str = "jid, fun, arg, tgt, tgt_type, user, operator, minions";

/// A database from which jobs are read. A disk that hangs keeps the turn of its reader.
#[derive(Debug)]
pub(crate) struct Sqlite3Jobs {
    path: PathBuf,
    /// None while a thread reads.
    database: Option<OpenDatabase>,
    turn: Arc<OwnedSemaphorePermit>,
    context: Context,
}

impl Sqlite3Jobs {
    pub(crate) async fn open(
        path: &Path,
        context: &Context,
        turn: OwnedSemaphorePermit,
    ) -> Result<Self, String> {
        let mut jobs = Self {
            path: path.to_owned(),
            database: None,
            turn: Arc::new(turn),
            context: context.clone(),
        };
        jobs.work(|_| Ok(())).await?;
        Ok(jobs)
    }

    pub(crate) async fn job(&mut self, jid: &str) -> Result<Option<CachedJob>, String> {
        let jid = jid.to_owned();
        self.work(move |connection| {
            let sql = format!("SELECT {COLUMNS} FROM jobs WHERE jid = ?1");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(params![jid])?;
            rows.next()?.map(job).transpose()
        })
        .await
    }

    pub(crate) async fn jobs(
        &mut self,
        from: &str,
        before: &str,
    ) -> Result<Vec<CachedJob>, String> {
        let (from, before) = (from.to_owned(), before.to_owned());
        self.work(move |connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM
                     (SELECT {COLUMNS}, size, sum(size) OVER (ORDER BY jid DESC) AS upto FROM
                          (SELECT {COLUMNS},
                                  coalesce(length(CAST(arg AS BLOB)), 0) + coalesce(length(CAST(minions AS BLOB)), 0) AS size
                           FROM jobs WHERE jid >= ?1 AND jid < ?2 ORDER BY jid DESC LIMIT ?3))
                 WHERE upto - size < ?4 ORDER BY jid DESC"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let found = statement.query_map(params![from, before, PAGE_ROWS, PAGE_BYTES], job)?;
            found.collect()
        })
        .await
    }

    pub(crate) async fn returns(
        &mut self,
        jid: &str,
        after: &str,
    ) -> Result<Vec<CachedReturn>, String> {
        let (jid, after) = (jid.to_owned(), after.to_owned());
        self.work(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT minion, return, retcode, success FROM
                     (SELECT minion, return, retcode, success, size, sum(size) OVER (ORDER BY minion) AS upto FROM
                          (SELECT minion, return, retcode, success, coalesce(length(CAST(return AS BLOB)), 0) AS size
                           FROM returns WHERE jid = ?1 AND minion > ?2 ORDER BY minion LIMIT ?3))
                 WHERE upto - size < ?4 ORDER BY minion",
            )?;
            let found = statement.query_map(params![jid, after, PAGE_ROWS, PAGE_BYTES], |row| {
                let value: Option<String> = row.get(1)?;
                Ok(CachedReturn {
                    minion: row.get(0)?,
                    value: read_value(value.as_deref()),
                    retcode: row.get(2)?,
                    success: row.get(3)?,
                })
            })?;
            found.collect()
        })
        .await
    }

    /// Runs `act` on the database in a thread for blocking work.
    async fn work<T: Send + 'static>(
        &mut self,
        act: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let (path, held) = (self.path.clone(), self.database.take());
        let turn = Arc::clone(&self.turn);
        let working = self.context.spawn_blocking(move || {
            let database = match held {
                Some(database) => database,
                None => OpenDatabase::open(&path)?,
            };
            let done = act(&database.connection).map_err(of_sqlite)?;
            drop(turn);
            Ok::<_, String>((done, database))
        });
        let done = working
            .await
            .map_err(|_| "the master's log says why".to_owned());
        let (done, database) = done
            .and_then(|done| done)
            .map_err(|why| format!("{}: {why}", self.path.display()))?;
        self.database = Some(database);
        Ok(done)
    }
}

fn job(row: &Row<'_>) -> rusqlite::Result<CachedJob> {
    Ok(CachedJob {
        jid: row.get(0)?,
        fun: row.get(1)?,
        arg: read(row, 2)?.unwrap_or_default(),
        target: row.get(3)?,
        target_kind: row.get(4)?,
        user: row.get(5)?,
        operator: row.get(6)?,
        minions: read_ids(read(row, 7)?.as_ref()),
    })
}

/// Returns a column of JSON.
fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Value>> {
    let text: Option<String> = row.get(column)?;
    Ok(text.as_deref().and_then(read_json))
}
