//! Stores returns, each once, and reads them in pages.

use rusqlite::{Connection, OptionalExtension, params};
use saline_protocol::message::{
    Jid, MasterTime, MinionId, OfferState, Packed, Return, ReturnVerdict, StoredReturn,
};

use super::{JobStore, StoreError, offers, rows};

/// The bytes of a return in memory beside its payload and its arguments, about.
const BESIDE: usize = 256;

/// A page of the returns of a job, and the states of all its minions at the same moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedPage {
    /// Returns in the order of the minions' ids.
    pub returns: Vec<StoredReturn>,
    /// Whether more returns follow the last of these.
    pub more: bool,
    /// The state of every expected minion, by id. The store has a return of each minion in the
    /// state `Returned`.
    pub states: Vec<(MinionId, OfferState)>,
    /// The time until which minions may begin.
    pub expires: MasterTime,
}

impl JobStore {
    /// Stores returns of a minion. The verdicts, in their order, come after the commit, also for
    /// duplicates.
    ///
    /// # Errors
    /// When SQLite fails. Nothing was stored, and the minion should send the returns again.
    ///
    /// # Cancel safety
    /// A dropped call may have stored all of the returns or none. It may be repeated.
    pub async fn store_returns(
        &self,
        minion: &MinionId,
        returns: Vec<Return>,
    ) -> Result<Vec<ReturnVerdict>, StoreError> {
        let now = self.now();
        let minion = minion.clone();
        let size = |r: &Return| {
            r.payload.as_bytes().len() + r.fun_args.as_packed().as_bytes().len() + BESIDE
        };
        let bytes = returns.iter().map(size).sum();
        self.write(bytes, move |connection| {
            let stored = returns.iter().map(|r| store(connection, &minion, r, now));
            stored.collect()
        })
        .await
    }

    /// Returns the returns of a job by minions after `after`: about `max_bytes`, but at least one
    /// if there is one. None if there is no such job.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn returns(
        &self,
        jid: &Jid,
        after: Option<MinionId>,
        max_bytes: usize,
    ) -> Result<Option<ReturnedPage>, StoreError> {
        let jid = jid.clone();
        self.read(move |connection| {
            // All three are read at one moment, so that no minion is in the state `Returned`
            // without its return.
            let moment = connection.unchecked_transaction()?;
            let Some(expires) = offers::expires(&moment, &jid)? else {
                return Ok(None);
            };
            let (returns, more) = page(&moment, &jid, after.as_ref(), max_bytes)?;
            Ok(Some(ReturnedPage {
                returns,
                more,
                states: offers::states(&moment, &jid)?,
                expires,
            }))
        })
        .await
    }
}

fn store(
    connection: &Connection,
    minion: &MinionId,
    returned: &Return,
    now: MasterTime,
) -> Result<ReturnVerdict, StoreError> {
    let jid = returned.jid.as_str();
    // A job that is being pruned is unknown, though some of its offers may be left.
    let offer: Option<Option<i64>> = connection
        .prepare_cached(
            "SELECT offers.state FROM jobs
             LEFT JOIN offers ON offers.jid = jobs.jid AND offers.minion = ?2
             WHERE jobs.jid = ?1",
        )?
        .query_row(params![jid, minion.as_str()], |row| row.get(0))
        .optional()?;
    let state = match offer {
        None => return Ok(ReturnVerdict::UnknownJob),
        Some(None) => return Ok(ReturnVerdict::NotOffered),
        Some(Some(number)) => rows::state(number)?,
    };
    if matches!(state, OfferState::NotConnected | OfferState::Declined) {
        return Ok(ReturnVerdict::NotOffered);
    }
    let stored = connection
        .prepare_cached(
            "INSERT INTO returns (jid, minion, retcode, success, payload, received)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            jid,
            minion.as_str(),
            returned.retcode,
            returned.success,
            returned.payload.as_bytes(),
            rows::from_time(now),
        ])?;
    if stored == 0 {
        return Ok(ReturnVerdict::Duplicate);
    }
    offers::put(connection, jid, minion, OfferState::Returned, now)?;
    Ok(ReturnVerdict::Stored)
}

fn page(
    connection: &Connection,
    jid: &Jid,
    after: Option<&MinionId>,
    max_bytes: usize,
) -> Result<(Vec<StoredReturn>, bool), StoreError> {
    // The length is read before the payload, which is not read when it does not fit.
    let mut statement = connection.prepare_cached(
        "SELECT minion, retcode, success, length(payload), payload FROM returns
         WHERE jid = ?1 AND minion > ?2 ORDER BY minion",
    )?;
    let mut found = statement.query(params![jid.as_str(), after.map_or("", MinionId::as_str)])?;
    let mut returns = Vec::new();
    let mut room = max_bytes;
    while let Some(row) = found.next()? {
        let minion = rows::minion(row, 0)?;
        let length: i64 = row.get(3)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let size = length.saturating_add(minion.as_str().len() + 32);
        if size > room && !returns.is_empty() {
            return Ok((returns, true));
        }
        room = room.saturating_sub(size);
        returns.push(StoredReturn {
            minion,
            retcode: row.get(1)?,
            success: row.get(2)?,
            payload: Packed::from_bytes(rows::blob(row, 4)?.to_vec()),
        });
    }
    Ok((returns, false))
}
