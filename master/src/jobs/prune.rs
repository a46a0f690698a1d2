//! Deletes expired jobs in small transactions, so that pruning never blocks returns.
//!
//! A job's own row is deleted first, which makes the job unknown; then its returns and offers. Rows
//! that a crash leaves between the two are found at the first pruning after it.

use std::sync::atomic::Ordering;

use rusqlite::{Connection, params};
use saline_protocol::message::{Jid, MasterTime};

use super::{JobStore, StoreError, publish, rows};

/// The number of jobs that are deleted in one transaction.
const JOBS: i64 = 64;

/// The number of rows that are deleted in one transaction.
const ROWS: usize = 1_000;

/// The bytes of payloads that are deleted in one transaction.
const BYTES: usize = 16 * 1024 * 1024;

/// The pages of 4 KiB that are returned to the file system in one transaction.
const PAGES: i64 = 4_096;

impl JobStore {
    /// Deletes the jobs that were published before `before` with their offers and returns, and expired
    /// outcomes. Keeps jobs that may still begin, jobs that a minion has reported as running since
    /// `before`, and always the newest job, so that jids keep rising after a restart. Returns the
    /// number of deleted jobs.
    ///
    /// # Errors
    /// When SQLite fails. Deletions so far stand, and the next call continues.
    ///
    /// # Cancel safety
    /// Deletions so far stand, and the next call continues.
    pub async fn prune(&self, before: MasterTime) -> Result<usize, StoreError> {
        if !self.swept.swap(false, Ordering::AcqRel) {
            let orphans = self.read(orphans).await?;
            self.remove_rows(orphans).await?;
        }
        let now = self.now();
        let mut pruned = 0;
        loop {
            let jids = self
                .write(0, move |connection| remove_jobs(connection, before, now))
                .await?;
            if jids.is_empty() {
                break;
            }
            pruned += jids.len();
            self.remove_rows(jids).await?;
        }
        while self
            .write(0, move |connection| remove_outcomes(connection, now))
            .await?
        {}
        while self.write(0, give_back).await? {}
        self.swept.store(true, Ordering::Release);
        Ok(pruned)
    }

    async fn remove_rows(&self, jids: Vec<Jid>) -> Result<(), StoreError> {
        for jid in jids {
            loop {
                let jid = jid.clone();
                let more = self
                    .write(0, move |connection| remove_some(connection, &jid))
                    .await?;
                if !more {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Deletes the rows of some jobs, and returns their jids.
fn remove_jobs(
    connection: &Connection,
    before: MasterTime,
    now: MasterTime,
) -> Result<Vec<Jid>, StoreError> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM jobs WHERE jid IN (
             SELECT jid FROM jobs
             WHERE created < ?1 AND expires <= ?2 AND jid < (SELECT max(jid) FROM jobs)
               AND NOT EXISTS (
                   SELECT 1 FROM offers
                   WHERE offers.jid = jobs.jid AND state = 3 AND updated >= ?1
               )
             ORDER BY created LIMIT ?3
         ) RETURNING jid",
    )?;
    let mut found =
        statement.query(params![rows::from_time(before), rows::from_time(now), JOBS])?;
    let mut jids = Vec::new();
    while let Some(row) = found.next()? {
        jids.push(rows::jid(row, 0)?);
    }
    Ok(jids)
}

/// Deletes some rows of a job. Returns whether rows are left.
fn remove_some(connection: &Connection, jid: &Jid) -> Result<bool, StoreError> {
    let mut sizes = connection
        .prepare_cached("SELECT rowid, length(payload) FROM returns WHERE jid = ?1 LIMIT ?2")?;
    let mut found = sizes.query(params![jid.as_str(), ROWS as i64])?;
    let mut doomed: Vec<i64> = Vec::new();
    let mut bytes = 0_usize;
    while bytes < BYTES
        && let Some(row) = found.next()?
    {
        doomed.push(row.get(0)?);
        let length: i64 = row.get(1)?;
        bytes = bytes.saturating_add(usize::try_from(length).unwrap_or(0));
    }
    drop(found);
    let mut remove = connection.prepare_cached("DELETE FROM returns WHERE rowid = ?1")?;
    for row in &doomed {
        remove.execute([row])?;
    }
    if bytes >= BYTES || doomed.len() == ROWS {
        return Ok(true);
    }
    let removed = connection
        .prepare_cached(
            "DELETE FROM offers WHERE jid = ?1 AND minion IN (
                 SELECT minion FROM offers WHERE jid = ?1 LIMIT ?2
             )",
        )?
        .execute(params![jid.as_str(), ROWS as i64])?;
    Ok(removed == ROWS)
}

fn remove_outcomes(connection: &Connection, now: MasterTime) -> Result<bool, StoreError> {
    let removed = connection
        .prepare_cached(
            "DELETE FROM outcomes WHERE request_id IN (
                 SELECT request_id FROM outcomes WHERE created <= ?1 LIMIT ?2
             )",
        )?
        .execute(params![publish::oldest_outcome(now), ROWS as i64])?;
    Ok(removed == ROWS)
}

/// Returns some free pages to the file system. Returns whether more are left.
fn give_back(connection: &Connection) -> Result<bool, StoreError> {
    let free = |connection: &Connection| -> Result<i64, StoreError> {
        Ok(connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?)
    };
    let before = free(connection)?;
    if before <= PAGES {
        // This many free pages are soon used again.
        return Ok(false);
    }
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let mut pages = statement.query([])?;
    while pages.next()?.is_some() {}
    drop(pages);
    let after = free(connection)?;
    Ok(after > PAGES && after < before)
}

/// Returns the jids of offers and returns whose job is gone. Walks from jid to jid, not from row to
/// row.
fn orphans(connection: &Connection) -> Result<Vec<Jid>, StoreError> {
    let moment = connection.unchecked_transaction()?;
    let mut jids = Vec::new();
    for table in ["offers", "returns"] {
        let mut statement = moment.prepare(&format!(
            "WITH RECURSIVE walk (jid) AS (
                 SELECT min(jid) FROM {table}
                 UNION ALL
                 SELECT (SELECT min(jid) FROM {table} WHERE jid > walk.jid) FROM walk
                 WHERE walk.jid IS NOT NULL
             )
             SELECT jid FROM walk
             WHERE jid IS NOT NULL AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.jid = walk.jid)"
        ))?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            jids.push(rows::jid(row, 0)?);
        }
    }
    Ok(jids)
}
