//! Searches the jobs and runs of the store, for `jobs.list_jobs` and `jobs.last_run`.
//!
//! A search reads the rows of the span of time that it is about, one partition after the other, so that other
//! readers come in between. What jobs call is compared as the text that SQLite holds: only what is found is
//! converted.
//!
//! Jobs have no index by function or target: each would cost every publication a write, and there are few jobs
//! beside their returns. Metadata have a table of their own, so that a search by metadata reads nothing else.

use std::cmp::Reverse;
use std::sync::Arc;

use rusqlite::{Connection, Row, params};
use saline_data::{Packed, Value};
use saline_messages::{Jid, PackedArguments};
use saline_targeting::Glob;

use super::{JobStore, StoreError, jid};
use crate::authorize::is_own_run;
use crate::disk::columns;

/// The size in bytes of what one search finds, from which it ends.
const FOUND_BYTES: usize = 32 * 1024 * 1024;

/// The most that the arguments of a job may come to in a list, packed, in bytes.
const LISTED_ARGUMENTS: usize = 64 * 1024;

/// The columns of a job, in the order in which [`found_job`] reads them.
const COLUMNS: &str = "jid, fun, tgt, arg, tgt_type, user, operator";

/// The query for the runs between two times, with the columns of a job.
const RUNS: &str = "SELECT jid, kind || '.' || fun, ?3, arg, 'list', user, operator FROM runs
                    WHERE jid BETWEEN ?1 AND ?2 ORDER BY jid DESC";

/// The filters of a search: it finds the jobs that pass all of them.
#[derive(Debug, Clone)]
pub struct JobSearch {
    /// Finds only jobs whose function matches one of these; all when it is empty.
    pub functions: Vec<Glob>,
    /// Finds only jobs whose target expression matches one of these; all when it is empty.
    pub targets: Vec<Glob>,
    /// Finds only jobs whose metadata have one of these entries; all when it is empty.
    pub metadata: Vec<(String, Value)>,
    /// Finds only what this one ordered; none for everybody.
    pub owner: Option<String>,
    /// Finds also what `saline-call` and the schedules of minions ran on their machines. A minion may store many of these under any function,
    /// so they do not stand among the jobs that operators ordered unless they are asked for.
    pub includes_calls: bool,
    /// Finds only jobs that were published at or after this time, in microseconds since 1970.
    pub from: i64,
    /// Finds only jobs that were published at or before this time, in microseconds since 1970.
    pub until: i64,
    /// The largest number of jobs, the newest ones.
    pub most: usize,
    /// The name of the master, which counts as the target of a run.
    pub master: String,
}

/// A job that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundJob {
    /// The jid of the job.
    pub jid: Jid,
    /// The function, `module.function`; that of a run begins with `runner.` or `wheel.`.
    pub fun: String,
    /// The arguments of the function. What a search finds has their size in the place of large ones, so that
    /// a few jobs do not keep the others out of a list.
    pub arg: PackedArguments,
    /// The target expression.
    pub target: String,
    /// Salt's name of the kind of the target.
    pub target_kind: String,
    /// The user who asked, as the operator's program said.
    pub user: String,
    /// The operator by the name of its key.
    pub operator: String,
    /// The metadata, if there are some.
    pub metadata: Option<Packed>,
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct FoundJobs {
    /// The jobs, the newest first.
    pub jobs: Vec<FoundJob>,
    /// Whether the search ended because it had found enough: older jobs may match too.
    pub is_cut: bool,
}

impl JobSearch {
    /// Returns a search that finds every job.
    pub fn all(most: usize, master: String) -> Self {
        Self {
            functions: Vec::new(),
            targets: Vec::new(),
            metadata: Vec::new(),
            owner: None,
            includes_calls: false,
            from: i64::MIN,
            until: i64::MAX,
            most,
            master,
        }
    }

    /// Whether something that has this owner is looked for.
    pub(crate) fn wants_of(&self, owner: &str) -> bool {
        (self.includes_calls || !is_own_run(owner))
            && self.owner.as_deref().is_none_or(|wanted| wanted == owner)
    }

    /// Whether a job with this function and this target expression is looked for.
    pub(crate) fn wants(&self, fun: &str, target: &str) -> bool {
        let any = |globs: &[Glob], text| globs.is_empty() || globs.iter().any(|g| g.matches(text));
        any(&self.functions, fun) && any(&self.targets, target)
    }

    /// Whether metadata have one of the entries.
    fn wants_metadata(&self, metadata: &Packed) -> bool {
        let Ok(metadata) = metadata.unpack() else {
            return false;
        };
        let has = |(key, value): &(String, Value)| metadata.get(key) == Some(value);
        self.metadata.iter().any(has)
    }
}

impl JobStore {
    /// Returns the newest jobs and runs that a search is about.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn search(&self, search: JobSearch) -> Result<FoundJobs, StoreError> {
        let search = Arc::new(search);
        let mut found = FoundJobs::default();
        let mut room = FOUND_BYTES;
        for start in self.partitions.all().into_iter().rev() {
            if start > search.until {
                continue;
            }
            let wanted = Arc::clone(&search);
            let most = search.most.saturating_sub(found.jobs.len());
            let read = self.reader.moment(start, move |connection| {
                in_partition(connection, &wanted, most, room)
            });
            let part = match read.await {
                // It was pruned meanwhile.
                Err(StoreError::Removed) => continue,
                part => part?,
            };
            room = room.saturating_sub(part.jobs.iter().map(FoundJob::size).sum());
            found.jobs.extend(part.jobs);
            if part.is_cut {
                found.is_cut = true;
                break;
            }
            // The partitions before this one hold older jobs alone.
            if start < search.from {
                break;
            }
        }
        Ok(found)
    }

    /// Returns the number of jobs and runs before `before` that pass the filters, however many the search would find.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn count_before(
        &self,
        search: JobSearch,
        before: Option<&Jid>,
    ) -> Result<usize, StoreError> {
        let before = before.and_then(jid::to_micros).unwrap_or(i64::MAX);
        let search = Arc::new(JobSearch {
            until: search.until.min(before.saturating_sub(1)),
            ..search
        });
        let mut count = 0;
        for start in self.partitions.all() {
            if start > search.until {
                break;
            }
            let wanted = Arc::clone(&search);
            let counted = self.reader.moment(start, move |connection| {
                count_in_partition(connection, &wanted)
            });
            count += match counted.await {
                // It was pruned meanwhile.
                Err(StoreError::Removed) => 0,
                counted => counted?,
            };
        }
        Ok(count)
    }
}

/// Returns what one partition holds: at most `most` jobs of about `room` bytes, the newest first.
fn in_partition(
    connection: &Connection,
    search: &JobSearch,
    most: usize,
    room: usize,
) -> Result<FoundJobs, StoreError> {
    let mut found = FoundJobs::default();
    let mut taken = 0;
    let mut statement = connection.prepare_cached(&jobs_query(search))?;
    let mut rows = statement.query(params![search.from, search.until])?;
    while let Some(row) = rows.next()? {
        let Some(metadata) = wanted_job(row, search)? else {
            continue;
        };
        if found.jobs.len() >= most || taken >= room {
            found.is_cut = true;
            break;
        }
        let job = found_job(row, metadata)?;
        taken += job.size();
        found.jobs.push(job);
    }
    if search.metadata.is_empty() {
        add_runs(connection, search, most, &mut found)?;
    }
    Ok(found)
}

/// Returns the query for the jobs between two times, the newest first.
fn jobs_query(search: &JobSearch) -> String {
    // The few jobs with metadata are looked at first if it is them that are looked for.
    let (tables, name) = match search.metadata.is_empty() {
        true => ("jobs LEFT JOIN metadata USING (jid)", "jobs.jid"),
        false => ("metadata CROSS JOIN jobs USING (jid)", "metadata.jid"),
    };
    format!(
        "SELECT {COLUMNS}, metadata FROM {tables} WHERE {name} BETWEEN ?1 AND ?2
         ORDER BY {name} DESC"
    )
}

/// Returns the metadata of a job that passes the filters; none if it does not pass.
fn wanted_job(row: &Row<'_>, search: &JobSearch) -> Result<Option<Option<Packed>>, StoreError> {
    if !search.wants(columns::text(row, 1)?, columns::text(row, 2)?)
        || !search.wants_of(columns::text(row, 6)?)
    {
        return Ok(None);
    }
    let metadata = match row.get_ref(7)? {
        rusqlite::types::ValueRef::Null => None,
        _ => Some(Packed::from_bytes(columns::blob(row, 7)?.to_vec())),
    };
    let is_wanted = search.metadata.is_empty()
        || metadata
            .as_ref()
            .is_some_and(|held| search.wants_metadata(held));
    Ok(is_wanted.then_some(metadata))
}

/// Returns the number of jobs and runs of one partition that pass the filters.
fn count_in_partition(connection: &Connection, search: &JobSearch) -> Result<usize, StoreError> {
    let mut count = 0;
    let mut statement = connection.prepare_cached(&jobs_query(search))?;
    let mut rows = statement.query(params![search.from, search.until])?;
    while let Some(row) = rows.next()? {
        count += usize::from(wanted_job(row, search)?.is_some());
    }
    if search.metadata.is_empty() {
        let mut statement = connection.prepare_cached(RUNS)?;
        let mut rows = statement.query(params![search.from, search.until, search.master])?;
        while let Some(row) = rows.next()? {
            count += usize::from(is_wanted_run(row, search)?);
        }
    }
    Ok(count)
}

fn is_wanted_run(row: &Row<'_>, search: &JobSearch) -> Result<bool, StoreError> {
    Ok(search.wants(columns::text(row, 1)?, &search.master)
        && search.wants_of(columns::text(row, 6)?))
}

/// Adds the runs of a partition. They are few: only asynchronous ones are stored.
fn add_runs(
    connection: &Connection,
    search: &JobSearch,
    most: usize,
    found: &mut FoundJobs,
) -> Result<(), StoreError> {
    // Those before the oldest job that was taken belong behind it.
    let from = match (found.is_cut, found.jobs.last()) {
        (true, Some(last)) => jid::to_micros(&last.jid).unwrap_or(search.from),
        // There was no room for any: older ones would hide it.
        (true, None) => return Ok(()),
        (false, _) => search.from,
    };
    let mut statement = connection.prepare_cached(RUNS)?;
    let mut rows = statement.query(params![from, search.until, search.master])?;
    let before = found.jobs.len();
    while let Some(row) = rows.next()? {
        if !is_wanted_run(row, search)? {
            continue;
        }
        if found.jobs.len() - before >= most {
            found.is_cut = true;
            break;
        }
        found.jobs.push(found_job(row, None)?);
    }
    if found.jobs.len() > before {
        found
            .jobs
            .sort_by_cached_key(|job| Reverse(job.jid.clone()));
        found.is_cut |= found.jobs.len() > most;
        found.jobs.truncate(most);
    }
    Ok(())
}

fn found_job(row: &Row<'_>, metadata: Option<Packed>) -> Result<FoundJob, StoreError> {
    let text = |column| columns::text(row, column).map(str::to_owned);
    Ok(FoundJob {
        jid: jid::from_micros(row.get(0)?),
        fun: text(1)?,
        target: text(2)?,
        arg: listed_arguments(columns::blob(row, 3)?),
        target_kind: text(4)?,
        user: text(5)?,
        operator: text(6)?,
        metadata,
    })
}

/// Returns arguments as they are listed.
pub(crate) fn listed_arguments(packed: &[u8]) -> PackedArguments {
    if packed.len() <= LISTED_ARGUMENTS {
        return PackedArguments::from_packed(Packed::from_bytes(packed.to_vec()));
    }
    let size = packed.len();
    let named = format!("({size} bytes of arguments, which jobs.list_job shows)");
    PackedArguments::from_packed(Packed::pack(&Value::List(vec![named.into()])))
}

impl FoundJob {
    /// Returns about its size in bytes.
    pub(crate) fn size(&self) -> usize {
        let metadata = self.metadata.as_ref();
        128 + self.fun.len()
            + self.target.len()
            + self.arg.as_packed().as_bytes().len()
            + metadata.map_or(0, |packed| packed.as_bytes().len())
    }
}
