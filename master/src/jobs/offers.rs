//! The states of minions in jobs, and the allowed changes.

use rusqlite::{Connection, OptionalExtension, params};
use saline_protocol::message::{Jid, Job, MasterTime, MinionId, OfferState};

use super::{JobStore, StoreError, rows};

/// The largest number of jobs in the answer to a minion that asks for missed jobs.
const PENDING_JOBS: usize = 256;

/// The largest size of that answer in bytes, except for a single larger job.
const PENDING_BYTES: usize = 4 * 1024 * 1024;

/// The largest number of jobs that is taken from one heartbeat.
const RUNNING_JOBS: usize = 1_024;

/// The number of offers that expire in one transaction.
const EXPIRING: i64 = 1_000;

// These queries name their index: the tables are large, the open offers few, and a query that would
// scan the table must fail rather than be slow.

const PENDING: &str = "
    FROM offers INDEXED BY offers_open JOIN jobs ON jobs.jid = offers.jid
    WHERE offers.minion = ?1 AND offers.state IN (0, 2) AND jobs.expires > ?2
    ORDER BY offers.jid LIMIT ?3";

pub(super) const EXPIRED: &str = "
    SELECT offers.jid, offers.minion
    FROM offers INDEXED BY offers_open JOIN jobs ON jobs.jid = offers.jid
    WHERE offers.state IN (0, 2) AND jobs.expires <= ?1
    ORDER BY offers.jid, offers.minion LIMIT ?2";

pub(super) const NEXT_EXPIRY: &str = "
    SELECT min(expires) FROM jobs WHERE jid IN (
        SELECT jid FROM offers INDEXED BY offers_open WHERE state IN (0, 2)
    )";

/// Whether an offer may change from one state to the other. It never goes back, and leaves a final
/// state only for a late return.
pub fn may_become(from: OfferState, to: OfferState) -> bool {
    use OfferState::{Declined, Expired, NotConnected, Offered, Queued, Returned, Running};
    match from {
        Queued => matches!(to, Offered | Running | Returned | Declined | Expired),
        Offered => matches!(to, Running | Returned | Declined | Expired),
        Running | Expired => to == Returned,
        Returned | Declined | NotConnected => false,
    }
}

impl JobStore {
    /// Changes the state of an offer if the change is [allowed](may_become). Returns whether it
    /// was. Only [`store_returns`](Self::store_returns) sets `Returned`, so that every offer in that
    /// state has its return.
    ///
    /// # Errors
    /// When SQLite fails; nothing was changed.
    ///
    /// # Cancel safety
    /// A dropped call may have changed the state or not. It may be repeated.
    pub async fn set_state(
        &self,
        jid: &Jid,
        minion: &MinionId,
        state: OfferState,
    ) -> Result<bool, StoreError> {
        let now = self.now();
        let (jid, minion) = (jid.clone(), minion.clone());
        self.write(0, move |connection| {
            let moves = state != OfferState::Returned
                && find(connection, jid.as_str(), &minion)?
                    .is_some_and(|from| may_become(from, state));
            if moves {
                put(connection, jid.as_str(), &minion, state, now)?;
            }
            Ok(moves)
        })
        .await
    }

    /// Marks jobs as running that a minion reports in a heartbeat. Returns those that were not
    /// running before. Of more than 1,024 jobs the rest is ignored.
    ///
    /// # Errors
    /// When SQLite fails; nothing was changed.
    ///
    /// # Cancel safety
    /// A dropped call may have changed the states or not. It may be repeated.
    pub async fn mark_running(
        &self,
        minion: &MinionId,
        jids: &[Jid],
    ) -> Result<Vec<Jid>, StoreError> {
        let now = self.now();
        let minion = minion.clone();
        let jids: Vec<Jid> = jids.iter().take(RUNNING_JOBS).cloned().collect();
        if jids.is_empty() {
            return Ok(jids);
        }
        self.write(0, move |connection| {
            let mut begun = Vec::new();
            for jid in jids {
                match find(connection, jid.as_str(), &minion)? {
                    Some(OfferState::Running) => {}
                    Some(from) if may_become(from, OfferState::Running) => begun.push(jid.clone()),
                    _ => continue,
                }
                put(connection, jid.as_str(), &minion, OfferState::Running, now)?;
            }
            Ok(begun)
        })
        .await
    }

    /// Returns the jobs that a minion may still begin, the oldest first: unexpired, and offered to
    /// it or queued for it. Running jobs are not included: if a crash interrupted one, the minion
    /// returns it by itself. The size is bounded; further jobs follow when these have begun.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn pending_jobs(
        &self,
        minion: &MinionId,
        now: MasterTime,
    ) -> Result<Vec<Job>, StoreError> {
        let minion = minion.clone();
        self.read(move |connection| pending(connection, &minion, now))
            .await
    }

    /// Returns the state of every expected minion of a job, by id; none if there is no such job.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn states(
        &self,
        jid: &Jid,
    ) -> Result<Option<Vec<(MinionId, OfferState)>>, StoreError> {
        let jid = jid.clone();
        self.read(move |connection| {
            let moment = connection.unchecked_transaction()?;
            match expires(&moment, &jid)? {
                Some(_) => states(&moment, &jid).map(Some),
                None => Ok(None),
            }
        })
        .await
    }

    /// Expires the offers that no minion has begun in time, and returns them, those of the oldest
    /// job first.
    ///
    /// # Errors
    /// When SQLite fails. Offers that expired before the failure stay expired, and their events are
    /// lost.
    ///
    /// # Cancel safety
    /// A dropped call may have expired offers whose events are never fired.
    pub async fn expire(&self, now: MasterTime) -> Result<Vec<(Jid, MinionId)>, StoreError> {
        let mut all = Vec::new();
        loop {
            let some = self
                .write(0, move |connection| expire(connection, now))
                .await?;
            let done = some.len() < EXPIRING as usize;
            all.extend(some);
            if done {
                return Ok(all);
            }
        }
    }

    /// Returns the time at which the next open offer expires; none if no offer is open.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn next_expiry(&self) -> Result<Option<MasterTime>, StoreError> {
        self.read(|connection| {
            let next: Option<i64> = connection
                .prepare_cached(NEXT_EXPIRY)?
                .query_row([], |row| row.get(0))?;
            Ok(next.map(|time| MasterTime::try_from(time).unwrap_or(0)))
        })
        .await
    }
}

fn find(
    connection: &Connection,
    jid: &str,
    minion: &MinionId,
) -> Result<Option<OfferState>, StoreError> {
    let number: Option<i64> = connection
        .prepare_cached("SELECT state FROM offers WHERE jid = ?1 AND minion = ?2")?
        .query_row(params![jid, minion.as_str()], |row| row.get(0))
        .optional()?;
    number.map(rows::state).transpose()
}

/// Sets the state of an existing offer.
pub(super) fn put(
    connection: &Connection,
    jid: &str,
    minion: &MinionId,
    state: OfferState,
    now: MasterTime,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "UPDATE offers SET state = ?3, updated = ?4 WHERE jid = ?1 AND minion = ?2",
        )?
        .execute(params![
            jid,
            minion.as_str(),
            state as i64,
            rows::from_time(now)
        ])?;
    Ok(())
}

/// Returns the time until which a job may begin; none if there is no such job.
pub(super) fn expires(
    connection: &Connection,
    jid: &Jid,
) -> Result<Option<MasterTime>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT expires FROM jobs WHERE jid = ?1")?;
    let mut found = statement.query([jid.as_str()])?;
    found.next()?.map(|row| rows::time(row, 0)).transpose()
}

/// Returns the states of a job's minions, by id.
pub(super) fn states(
    connection: &Connection,
    jid: &Jid,
) -> Result<Vec<(MinionId, OfferState)>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT minion, state FROM offers WHERE jid = ?1 ORDER BY minion")?;
    let mut found = statement.query([jid.as_str()])?;
    let mut states = Vec::new();
    while let Some(row) = found.next()? {
        states.push((rows::minion(row, 0)?, rows::state(row.get(1)?)?));
    }
    Ok(states)
}

pub(super) fn pending_query() -> String {
    format!("SELECT {} {PENDING}", rows::JOB)
}

fn pending(
    connection: &Connection,
    minion: &MinionId,
    now: MasterTime,
) -> Result<Vec<Job>, StoreError> {
    let mut statement = connection.prepare_cached(&pending_query())?;
    let mut found = statement.query(params![
        minion.as_str(),
        rows::from_time(now),
        PENDING_JOBS as i64
    ])?;
    rows::jobs(&mut found, PENDING_BYTES)
}

fn expire(connection: &Connection, now: MasterTime) -> Result<Vec<(Jid, MinionId)>, StoreError> {
    let mut statement = connection.prepare_cached(EXPIRED)?;
    let mut found = statement.query(params![rows::from_time(now), EXPIRING])?;
    let mut expired = Vec::new();
    while let Some(row) = found.next()? {
        expired.push((rows::jid(row, 0)?, rows::minion(row, 1)?));
    }
    for (jid, minion) in &expired {
        put(connection, jid.as_str(), minion, OfferState::Expired, now)?;
    }
    Ok(expired)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_only_go_forward() {
        use OfferState::{Declined, Expired, NotConnected, Offered, Queued, Returned, Running};
        let all = [
            Offered,
            NotConnected,
            Queued,
            Running,
            Returned,
            Declined,
            Expired,
        ];
        for from in all {
            let ways: Vec<_> = all.into_iter().filter(|to| may_become(from, *to)).collect();
            let expected: &[OfferState] = match from {
                Queued => &[Offered, Running, Returned, Declined, Expired],
                Offered => &[Running, Returned, Declined, Expired],
                Running | Expired => &[Returned],
                Returned | Declined | NotConnected => &[],
            };
            assert_eq!(ways, expected, "from {from:?}");
        }
    }
}
