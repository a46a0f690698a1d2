//! Reads the master's job store, without any code of the master.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::contents::Content;
use crate::error::{ChaosError, Result};
use crate::plan::{FileOrder, Token};
use crate::states::State;

/// A job as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredJob {
    /// Microseconds since 1970.
    pub(crate) number: i64,
    /// None when the job is not of this run's kind.
    pub(crate) token: Option<Token>,
    /// The number of the order about a file that the job is for; none for other jobs.
    pub(crate) order: Option<u32>,
    /// The state of each minion, but for returns: they are rows of their own.
    pub(crate) states: BTreeMap<String, State>,
    /// The rows of returns of each minion.
    pub(crate) returns: BTreeMap<String, Vec<StoredReturn>>,
    /// The metadata of a job that the reactor ordered, which name its event and its block; none for other jobs.
    pub(crate) reaction: Option<Vec<u8>>,
    /// What cannot be read in it.
    pub(crate) damage: Option<String>,
}

/// A return as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredReturn {
    pub(crate) retcode: i64,
    pub(crate) content: Content,
}

/// The parts of a large return have consecutive numbers from the first on, below the next multiple of this.
const MOST_PARTS: i64 = 65_536;

/// The parts of a store that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The states, and who returned.
    States,
    /// The states, and the contents of the returns.
    Contents,
}

/// The jobs of a store, by jid.
pub(crate) type StoredJobs = BTreeMap<String, StoredJob>;

/// Reads all files of the store in `folder`, whichever process has them open.
pub(crate) fn read(folder: &Path, depth: Depth) -> Result<StoredJobs> {
    let mut jobs = BTreeMap::new();
    let entries = std::fs::read_dir(folder).map_err(ChaosError::at(folder))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    // The file of minions holds no jobs.
    paths.retain(|path| {
        path.extension().is_some_and(|end| end == "sqlite") && !path.ends_with("minions.sqlite")
    });
    paths.sort();
    for path in paths {
        read_file(&path, depth, &mut jobs).map_err(|source| ChaosError::Store { path, source })?;
    }
    Ok(jobs
        .into_values()
        .map(|job: StoredJob| (jid(job.number), job))
        .collect())
}

fn read_file(
    path: &Path,
    depth: Depth,
    jobs: &mut BTreeMap<i64, StoredJob>,
) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.pragma_update(None, "query_only", true)?;
    // All tables at one moment, while the master writes.
    let connection = connection.unchecked_transaction()?;
    let mut rows = connection.prepare("SELECT jid, arg, states FROM jobs")?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        let job = jobs.entry(number).or_default();
        job.number = number;
        let arguments = row.get_ref(1)?.as_bytes()?;
        job.token = Token::find(arguments);
        job.order = FileOrder::find(arguments);
        match states(row.get_ref(2)?.as_bytes()?) {
            Some(states) => job.states = states,
            None => job.damage = Some("the states of its minions".to_owned()),
        }
    }
    // What has changed since the publication is one row for each minion.
    let mut rows = connection.prepare("SELECT jid, minion, state FROM state_changes")?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        let job = jobs.entry(number).or_default();
        job.number = number;
        let minion: String = row.get(1)?;
        let state = State::from_number(row.get(2)?);
        match job.states.get_mut(&minion) {
            Some(published) => *published = state,
            None => job.damage = Some(format!("the state of {minion}, which it was not for")),
        }
    }
    let mut rows = connection.prepare(
        "SELECT jid, metadata FROM metadata JOIN jobs USING (jid) WHERE operator LIKE 'reaction %'",
    )?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        let job = jobs.entry(number).or_default();
        job.number = number;
        job.reaction = Some(row.get(1)?);
    }
    let mut rows =
        connection.prepare("SELECT jid, minion, retcode, payload, parts FROM returns")?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        let content = match row.get(4)? {
            _ if depth == Depth::States => Content::Other("not read".to_owned()),
            Some(first) => Content::of_packed(&in_parts(&connection, first)?),
            None => Content::of_packed(row.get_ref(3)?.as_bytes()?),
        };
        let stored = StoredReturn {
            retcode: row.get(2)?,
            content,
        };
        let job = jobs.entry(number).or_default();
        job.number = number;
        job.returns.entry(row.get(1)?).or_default().push(stored);
    }
    Ok(())
}

/// The exit codes of the returns in the database outside, by jid and minion.
pub(crate) type Delivered = BTreeMap<(String, String), i64>;

/// Reads what was delivered to the database outside.
pub(crate) fn read_delivered(path: &Path) -> Result<Delivered> {
    let read = || -> rusqlite::Result<Delivered> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        let mut rows = connection.prepare("SELECT jid, minion, retcode FROM returns")?;
        let rows = rows.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
        rows.collect()
    };
    read().map_err(|source| ChaosError::Store {
        path: path.to_owned(),
        source,
    })
}

/// Reads a large return, which is stored in the parts in which it came.
fn in_parts(connection: &Connection, first: i64) -> rusqlite::Result<Vec<u8>> {
    let mut parts = connection.prepare_cached(
        "SELECT bytes FROM return_parts WHERE number >= ?1 AND number < ?2 ORDER BY number",
    )?;
    let mut rows = parts.query([first, first + MOST_PARTS])?;
    let mut whole = Vec::new();
    while let Some(row) = rows.next()? {
        whole.extend_from_slice(row.get_ref(0)?.as_bytes()?);
    }
    Ok(whole)
}

/// Reads the compact value: for each minion the length of its id, the id, and the number of its state.
fn states(mut bytes: &[u8]) -> Option<BTreeMap<String, State>> {
    let mut states = BTreeMap::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (id, rest) = rest.split_at_checked(usize::from(*length))?;
        let (number, rest) = rest.split_first()?;
        let id = String::from_utf8(id.to_vec()).ok()?;
        states.insert(id, State::from_number(*number));
        bytes = rest;
    }
    Some(states)
}

/// Writes a jid as people see it: a date and a time of twenty digits.
fn jid(micros: i64) -> String {
    let micros = micros.max(0);
    let (days, of_day) = (micros / 86_400_000_000, micros % 86_400_000_000);
    let (year, month, day) = civil(days);
    let (seconds, fraction) = (of_day / 1_000_000, of_day % 1_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!(
        "{year:04}{month:02}{day:02}{hours:02}{minutes:02}{:02}{fraction:06}",
        seconds % 60
    )
}

/// Returns year, month and day of a day after 1970-01-01, in the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that a leap day is the last one; 400 of them have 146,097 days.
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let calendar_month = if month < 10 { month + 3 } else { month - 9 };
    let calendar_year = year + era * 400 + i64::from(calendar_month <= 2);
    (calendar_year, calendar_month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jid_is_written_as_its_time() {
        assert_eq!(jid(0), "19700101000000000000");
        assert_eq!(jid(1_795_252_449_931_549), "20261121091409931549");
        assert_eq!(jid(1_709_164_800_000_001), "20240229000000000001");
    }

    #[test]
    fn states_are_read_by_their_numbers() {
        let read = states(b"\x02m1\x04\x02m2\x08\x02m3\x63").unwrap();
        assert_eq!(read["m1"], State::Returned);
        assert_eq!(read["m2"], State::MayHaveRun);
        assert_eq!(read["m3"], State::Unknown(99));
        assert_eq!(states(b"\x05m1"), None);
    }
}
