//! The rows of kept events, on a connection.
//!
//! A row is an event, or the gap that lost events left: it has the number of the last of them, and how many there were.
//! The gap of a source that lost its oldest events has the name of that source, the gap of those that were too old has
//! none, and that of those that the disk did not take has one of its own. A gap takes the one before it in, unless a consumer has read that one: nobody is told of a loss twice.

use rusqlite::{Connection, OptionalExtension, params};

use super::filter::is_read_from_job_store;
use crate::bounds::Shares;
use crate::disk::StoreError;
use crate::disk::columns;
use crate::disk::file::Contents;

/// The contents of the store of kept events.
pub(super) const EVENTS: Contents = Contents {
    name: "the store of events",
    tables: TABLES,
};

/// `number` is a receipt number, `size` counts against the share of the source, and `event` is NULL in a gap, where
/// `lost` is the number of events that went. `cursors` has the numbers up to which each consumer has acknowledged.
const TABLES: &str = "
    CREATE TABLE events (
        number INTEGER NOT NULL PRIMARY KEY,
        source TEXT    NOT NULL,
        size   INTEGER NOT NULL,
        lost   INTEGER NOT NULL,
        event  BLOB
    );
    CREATE INDEX events_of ON events (source, number) WHERE event IS NOT NULL;
    CREATE INDEX gaps_of ON events (source, number) WHERE event IS NULL;
    CREATE TABLE cursors (
        consumer TEXT    NOT NULL PRIMARY KEY,
        event    INTEGER NOT NULL,
        receipt  INTEGER NOT NULL
    );
";

/// The bytes that an event takes on the disk beside its own, about.
const OVERHEAD: usize = 96;

/// The largest number of rows that one command removes because of their age.
const REMOVED_AT_ONCE: i64 = 1_000;

/// The source of the gap that events leave that were too old.
const TOO_OLD: &str = "";

/// The source of the gaps of events that the disk did not take. They stay apart, since events of all sources are between
/// them.
const NOT_TAKEN: &str = "not taken";

/// An event or a gap, as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptEvent {
    /// The number of the event, or of the last one of the gap.
    pub(crate) number: i64,
    /// The encoded event; in a gap the number of events that are lost.
    pub(crate) event: Result<Vec<u8>, u64>,
}

/// How far a consumer has read: everything up to these numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EventCursor {
    /// The number of a kept event.
    pub(crate) event: i64,
    /// The receipt number of the job store.
    pub(crate) receipt: i64,
}

impl EventCursor {
    /// Whether a stored event with this tag and number is before the cursor.
    pub(crate) fn is_past(&self, tag: &str, number: i64) -> bool {
        let place = match is_read_from_job_store(tag) {
            true => self.receipt,
            false => self.event,
        };
        number <= place
    }
}

/// Returns the highest number of any row, or 0.
pub(super) fn last_number(connection: &Connection) -> Result<i64, StoreError> {
    let last: Option<i64> =
        connection.query_row("SELECT max(number) FROM events", [], |row| row.get(0))?;
    Ok(last.unwrap_or(0))
}

/// Returns the bytes of each source.
pub(super) fn shares(connection: &Connection) -> Result<Shares, StoreError> {
    let mut statement = connection
        .prepare("SELECT source, sum(size) FROM events WHERE event IS NOT NULL GROUP BY source")?;
    let mut found = statement.query([])?;
    let mut shares = Shares::default();
    while let Some(row) = found.next()? {
        let bytes: i64 = row.get(1)?;
        shares.add(columns::text(row, 0)?, bytes.unsigned_abs());
    }
    Ok(shares)
}

/// Adds an event. While all events have more than `most` bytes, the source that has most loses its oldest one.
pub(super) fn insert(
    connection: &Connection,
    shares: &mut Shares,
    most: u64,
    number: i64,
    (source, event): (&str, &[u8]),
) -> Result<(), StoreError> {
    let size = u32::try_from(event.len() + OVERHEAD).unwrap_or(u32::MAX);
    connection
        .prepare_cached(
            "INSERT INTO events (number, source, size, lost, event) VALUES (?1, ?2, ?3, 0, ?4)",
        )?
        .execute(params![number, source, size, event])?;
    shares.add(source, size.into());
    while shares.total() > most
        && let Some(largest) = shares.largest().map(str::to_owned)
    {
        evict(connection, shares, &largest)?;
    }
    Ok(())
}

/// Puts a gap in the place of the oldest event of a source.
fn evict(connection: &Connection, shares: &mut Shares, source: &str) -> Result<(), StoreError> {
    let oldest = connection
        .prepare_cached(
            "SELECT number, size FROM events WHERE source = ?1 AND event IS NOT NULL ORDER BY number LIMIT 1",
        )?
        .query_row([source], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?)))
        .optional()?;
    let Some((number, size)) = oldest else {
        return Err(StoreError::corrupt("an event of a source", "none"));
    };
    delete(connection, number)?;
    shares.remove(source, size.into());
    note_gap(connection, source, number, 1)
}

/// Notes that the disk did not take `lost` events before this number.
pub(super) fn note_not_taken(
    connection: &Connection,
    number: i64,
    lost: u64,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO events (number, source, size, lost, event) VALUES (?1, ?2, 0, ?3, NULL)",
        )?
        .execute(params![
            number,
            NOT_TAKEN,
            i64::try_from(lost).unwrap_or(i64::MAX)
        ])?;
    Ok(())
}

/// Notes that `lost` events of a source went, of which the last one had this number. Gaps between which no consumer stands
/// become one, so that there are about as many of a source as there are consumers.
fn note_gap(
    connection: &Connection,
    source: &str,
    number: i64,
    lost: i64,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO events (number, source, size, lost, event) VALUES (?1, ?2, 0, ?3, NULL)",
        )?
        .execute(params![number, source, lost])?;
    let mut latest = connection.prepare_cached(
        "SELECT number FROM events WHERE source = ?1 AND event IS NULL ORDER BY number DESC LIMIT 3",
    )?;
    let latest = latest.query_map([source], |row| row.get(0))?;
    let latest: Vec<i64> = latest.collect::<Result<_, _>>()?;
    // A consumer between two gaps has been told of the earlier one, and is told of the later one alone.
    for pair in latest.windows(2) {
        let (later, earlier) = (pair[0], pair[1]);
        let is_between: bool = connection
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM cursors WHERE event >= ?1 AND event < ?2)",
            )?
            .query_row([earlier, later], |row| row.get(0))?;
        if !is_between {
            connection
                .prepare_cached(
                    "UPDATE events SET lost = lost + (SELECT lost FROM events WHERE number = ?1)
                     WHERE number = ?2",
                )?
                .execute([earlier, later])?;
            return delete(connection, earlier);
        }
    }
    Ok(())
}

fn delete(connection: &Connection, number: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM events WHERE number = ?1")?
        .execute([number])?;
    Ok(())
}

/// Whether there is something to remove that is older than `before`.
pub(super) fn has_older(connection: &Connection, before: i64) -> Result<bool, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM events WHERE number < ?1 AND source <> ?2")?;
    Ok(statement.exists(params![before, TOO_OLD])?)
}

/// Puts one gap in the place of the oldest events and gaps before `before`. Returns whether there are more of them.
pub(super) fn remove_older(
    connection: &Connection,
    shares: &mut Shares,
    before: i64,
) -> Result<bool, StoreError> {
    let (mut last, mut lost, mut count) = (None, 0, 0);
    {
        let mut statement = connection.prepare_cached(
            "SELECT number, source, size, lost, event IS NULL FROM events
             WHERE number < ?1 AND source <> ?2 ORDER BY number LIMIT ?3",
        )?;
        let mut found = statement.query(params![before, TOO_OLD, REMOVED_AT_ONCE])?;
        while let Some(row) = found.next()? {
            last = Some(row.get::<_, i64>(0)?);
            let is_gap: bool = row.get(4)?;
            lost += match is_gap {
                true => row.get::<_, i64>(3)?,
                false => 1,
            };
            if !is_gap {
                shares.remove(columns::text(row, 1)?, row.get::<_, u32>(2)?.into());
            }
            count += 1;
        }
    }
    let Some(last) = last else {
        return Ok(false);
    };
    connection
        .prepare_cached("DELETE FROM events WHERE number <= ?1 AND source <> ?2")?
        .execute(params![last, TOO_OLD])?;
    note_gap(connection, TOO_OLD, last, lost)?;
    Ok(count == REMOVED_AT_ONCE)
}

/// Returns the events and gaps after number `after`: about `max_bytes`, but at least one if there is one; and whether
/// there are more.
pub(super) fn page(
    connection: &Connection,
    after: i64,
    max_bytes: usize,
) -> Result<(Vec<KeptEvent>, bool), StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, lost, event FROM events WHERE number > ?1 ORDER BY number",
    )?;
    let mut found = statement.query([after])?;
    let (mut page, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let event = match row.get_ref(2)?.as_blob_or_null() {
            Ok(Some(event)) => Ok(event.to_vec()),
            Ok(None) => Err(row.get::<_, i64>(1)?.unsigned_abs()),
            Err(_) => return Err(StoreError::corrupt("an event", "another value")),
        };
        bytes += event.as_ref().map_or(0, Vec::len) + OVERHEAD;
        if bytes > max_bytes && !page.is_empty() {
            return Ok((page, true));
        }
        page.push(KeptEvent {
            number: row.get(0)?,
            event,
        });
    }
    Ok((page, false))
}

/// Returns how far a consumer has acknowledged: nothing when it is not known.
pub(super) fn cursor(connection: &Connection, consumer: &str) -> Result<EventCursor, StoreError> {
    let found = connection
        .prepare_cached("SELECT event, receipt FROM cursors WHERE consumer = ?1")?
        .query_row([consumer], |row| {
            Ok(EventCursor {
                event: row.get(0)?,
                receipt: row.get(1)?,
            })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}

/// Returns the consumers that have acknowledged something, sorted by name.
pub(super) fn consumers(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT consumer FROM cursors ORDER BY consumer")?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Forgets a consumer. Returns false when it is not known.
pub(super) fn forget(connection: &Connection, consumer: &str) -> Result<bool, StoreError> {
    let removed = connection
        .prepare_cached("DELETE FROM cursors WHERE consumer = ?1")?
        .execute([consumer])?;
    Ok(removed > 0)
}

/// Notes how far a consumer has acknowledged. It never goes back.
pub(super) fn acknowledge(
    connection: &Connection,
    consumer: &str,
    cursor: EventCursor,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO cursors (consumer, event, receipt) VALUES (?1, ?2, ?3)
             ON CONFLICT (consumer) DO UPDATE SET event = max(event, ?2), receipt = max(receipt, ?3)",
        )?
        .execute(params![consumer, cursor.event, cursor.receipt])?;
    Ok(())
}
