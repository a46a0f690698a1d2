//! Stores jobs together with their offers and with the outcome of the request.

use rusqlite::{Connection, OptionalExtension, params};
use saline_protocol::message::{Job, MasterTime, MinionId, OfferState, RequestId};

use super::{JobStore, StoreError, rows};

/// How long the outcome of a request is kept, in milliseconds.
pub const OUTCOME_KEPT: MasterTime = 10 * 60 * 1000;

/// The result of a request with an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Committed {
    /// The request was carried out now.
    Now,
    /// The request was carried out before; this was its reply.
    Before(Vec<u8>),
}

impl JobStore {
    /// Stores a job, its offers and the reply to its request, all or nothing. A request that has an
    /// outcome already is not carried out again.
    ///
    /// # Errors
    /// [`StoreError::JidTaken`] when there is such a job; otherwise when SQLite fails. Nothing was
    /// stored.
    ///
    /// # Cancel safety
    /// A dropped call may have stored everything or nothing; [`outcome`](Self::outcome) tells.
    pub async fn publish(
        &self,
        job: &Job,
        request_id: RequestId,
        offers: Vec<(MinionId, OfferState)>,
        reply: Vec<u8>,
    ) -> Result<Committed, StoreError> {
        let now = self.now();
        let job = job.clone();
        let bytes = rows::job_size(&job) + offers.len() * 64 + reply.len();
        self.write(bytes, move |connection| {
            if let Some(before) = outcome(connection, request_id, now)? {
                return Ok(Committed::Before(before));
            }
            insert_job(connection, &job, request_id)?;
            let mut insert = connection.prepare_cached(
                "INSERT INTO offers (jid, minion, state, updated) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO NOTHING",
            )?;
            for (minion, state) in &offers {
                insert.execute(params![
                    job.jid.as_str(),
                    minion.as_str(),
                    *state as i64,
                    rows::from_time(now)
                ])?;
            }
            insert_outcome(connection, request_id, &reply, now)?;
            Ok(Committed::Now)
        })
        .await
    }

    /// Stores the reply to a request whose effect is not a job.
    ///
    /// # Errors
    /// When SQLite fails; nothing was stored.
    ///
    /// # Cancel safety
    /// A dropped call may have stored the reply or not.
    pub async fn record_outcome(
        &self,
        request_id: RequestId,
        reply: Vec<u8>,
    ) -> Result<Committed, StoreError> {
        let now = self.now();
        self.write(reply.len(), move |connection| {
            if let Some(before) = outcome(connection, request_id, now)? {
                return Ok(Committed::Before(before));
            }
            insert_outcome(connection, request_id, &reply, now)?;
            Ok(Committed::Now)
        })
        .await
    }

    /// Returns the reply to a request of the last ten minutes that was carried out.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn outcome(&self, request_id: RequestId) -> Result<Option<Vec<u8>>, StoreError> {
        let now = self.now();
        self.read(move |connection| outcome(connection, request_id, now))
            .await
    }
}

fn outcome(
    connection: &Connection,
    request_id: RequestId,
    now: MasterTime,
) -> Result<Option<Vec<u8>>, StoreError> {
    let reply = connection
        .prepare_cached("SELECT reply FROM outcomes WHERE request_id = ?1 AND created > ?2")?
        .query_row(params![request_id.0, oldest_outcome(now)], |row| row.get(0))
        .optional()?;
    Ok(reply)
}

/// Returns the time up to which outcomes are forgotten.
pub(super) fn oldest_outcome(now: MasterTime) -> i64 {
    rows::from_time(now.saturating_sub(OUTCOME_KEPT))
}

fn insert_job(connection: &Connection, job: &Job, request_id: RequestId) -> Result<(), StoreError> {
    let inserted = connection
        .prepare_cached(
            "INSERT INTO jobs (jid, fun, arg, tgt, tgt_type, user, created, expires, request_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (jid) DO NOTHING",
        )?
        .execute(params![
            job.jid.as_str(),
            job.fun,
            job.arg.as_packed().as_bytes(),
            job.target.expression,
            job.target.kind.name(),
            job.user,
            rows::from_time(job.created),
            rows::from_time(job.expires),
            request_id.0,
        ])?;
    if inserted == 0 {
        return Err(StoreError::JidTaken(job.jid.clone()));
    }
    Ok(())
}

fn insert_outcome(
    connection: &Connection,
    request_id: RequestId,
    reply: &[u8],
    now: MasterTime,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO outcomes (request_id, reply, created) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![request_id.0, reply, rows::from_time(now)])?;
    Ok(())
}
