//! The states of a job's minions on the disk: those of its publication are one value of its row, and each that has changed
//! since has a row of its own, so that what is written is in proportion to what changes. They are put together as they are
//! read. A return has no such row: its own tells that the minion has returned.

use rusqlite::{Connection, OptionalExtension, Row, params};
use saline_messages::{MasterTime, MinionId, MinionJobState};

use crate::disk::StoreError;
use crate::disk::columns;
use crate::jobs::memory::states::{self, States};

/// Some of the states of a job's minions as the disk has them.
#[derive(Debug)]
pub(crate) struct WrittenStates {
    /// The states, by id.
    pub(crate) states: States,
    /// Whether more minions follow the last of these.
    pub(crate) more: bool,
    /// The time until which minions may begin.
    pub(crate) expires: MasterTime,
}

/// Whether there is such a job.
pub(crate) fn has_job(connection: &Connection, job: i64) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM jobs WHERE jid = ?1")?;
    Ok(statement.exists([job])?)
}

/// Reads the states of the minions after `after`, at most `most`; none when there is no such job.
pub(crate) fn read(
    connection: &Connection,
    job: i64,
    after: Option<&MinionId>,
    most: usize,
) -> Result<Option<WrittenStates>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT states, expires FROM jobs WHERE jid = ?1")?;
    let mut found = statement.query([job])?;
    let Some(row) = found.next()? else {
        return Ok(None);
    };
    let (mut states, more) = states::decode_page(columns::blob(row, 0)?, after, most)?;
    apply(connection, job, &mut states)?;
    Ok(Some(WrittenStates {
        states,
        more,
        expires: columns::time(row, 1)?,
    }))
}

/// Reads the states of a job's minions from the value of the publication and what has changed since.
pub(crate) fn read_all(
    connection: &Connection,
    job: i64,
    published: &[u8],
) -> Result<States, StoreError> {
    let mut states = states::decode(published)?;
    apply(connection, job, &mut states)?;
    Ok(states)
}

/// Reads the state of one minion, none if the job was not published to it, and the time until which minions may begin. None
/// when there is no such job.
pub(crate) fn find(
    connection: &Connection,
    job: i64,
    minion: &MinionId,
) -> Result<Option<(Option<MinionJobState>, MasterTime)>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT states, expires FROM jobs WHERE jid = ?1")?;
    let mut found = statement.query([job])?;
    let Some(row) = found.next()? else {
        return Ok(None);
    };
    let published = states::find(columns::blob(row, 0)?, minion)?;
    let expires = columns::time(row, 1)?;
    if published.is_none() {
        return Ok(Some((None, expires)));
    }
    let mut returned =
        connection.prepare_cached("SELECT 1 FROM returns WHERE jid = ?1 AND minion = ?2")?;
    if returned.exists(params![job, minion.as_str()])? {
        return Ok(Some((Some(MinionJobState::Returned), expires)));
    }
    let changed = connection
        .prepare_cached("SELECT state FROM state_changes WHERE jid = ?1 AND minion = ?2")?
        .query_row(params![job, minion.as_str()], |row| row.get::<_, u8>(0))
        .optional()?;
    let state = changed.map(states::state).transpose()?.or(published);
    Ok(Some((state, expires)))
}

/// Writes that the state of a minion is another one than at the publication, and how many of its heartbeats the master had
/// heard of when it offered the job, if this is an offer. A return is told by its own row: then the change before it is
/// removed.
pub(crate) fn write(
    connection: &Connection,
    job: i64,
    minion: &MinionId,
    state: MinionJobState,
    heartbeats: u64,
) -> Result<(), StoreError> {
    if state == MinionJobState::Returned {
        connection
            .prepare_cached("DELETE FROM state_changes WHERE jid = ?1 AND minion = ?2")?
            .execute(params![job, minion.as_str()])?;
        return Ok(());
    }
    connection
        .prepare_cached(
            "INSERT INTO state_changes (jid, minion, state, heartbeats)
             SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM jobs WHERE jid = ?1)
             ON CONFLICT (jid, minion) DO UPDATE SET state = ?3, heartbeats = ?4",
        )?
        .execute(params![
            job,
            minion.as_str(),
            state as u8,
            columns::from_time(heartbeats)
        ])?;
    Ok(())
}

/// Deletes the state "running" of minions that have returned: a crash between the return and the deletion leaves both.
pub(crate) fn settle(connection: &Connection) -> Result<(), StoreError> {
    let returned = "DELETE FROM state_changes WHERE state = 3 AND EXISTS
         (SELECT 1 FROM returns WHERE returns.jid = state_changes.jid AND returns.minion = state_changes.minion)";
    match connection.execute(returned, []).map_err(StoreError::from) {
        // A master starts on a full disk too, and looks for the return of each that runs.
        Ok(_) | Err(StoreError::Full) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Sets the states that have changed since the publication.
fn apply(connection: &Connection, job: i64, states: &mut States) -> Result<(), StoreError> {
    let (Some((first, _)), Some((last, _))) = (states.first(), states.last()) else {
        return Ok(());
    };
    let (first, last) = (first.clone(), last.clone());
    let range = params![job, first.as_str(), last.as_str()];
    let mut statement = connection.prepare_cached(
        "SELECT minion, state FROM state_changes
         WHERE jid = ?1 AND minion >= ?2 AND minion <= ?3 ORDER BY minion",
    )?;
    merge(&mut statement.query(range)?, states, |row| {
        states::state(row.get(1)?)
    })?;
    let range = params![job, first.as_str(), last.as_str()];
    let mut statement = connection.prepare_cached(
        "SELECT minion FROM returns
         WHERE jid = ?1 AND minion >= ?2 AND minion <= ?3 ORDER BY minion",
    )?;
    merge(&mut statement.query(range)?, states, |_| {
        Ok(MinionJobState::Returned)
    })
}

/// Sets the states of the minions of the rows. Both are in the order of the ids.
fn merge(
    rows: &mut rusqlite::Rows<'_>,
    states: &mut States,
    state_of: impl Fn(&Row<'_>) -> Result<MinionJobState, StoreError>,
) -> Result<(), StoreError> {
    let mut states = states.iter_mut().peekable();
    while let Some(row) = rows.next()? {
        let found = columns::text(row, 0)?;
        while states
            .next_if(|(minion, _)| minion.as_str() < found)
            .is_some()
        {}
        if let Some((_, state)) = states.next_if(|(minion, _)| minion.as_str() == found) {
            *state = state_of(row)?;
        }
    }
    Ok(())
}
