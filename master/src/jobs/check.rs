//! Checks the store while it is in use.

use rusqlite::Connection;

use super::{JobStore, StoreError, jid};
use crate::disk::columns;
use crate::jobs::tables::{minion_states, rows};

/// The largest number of problems that is reported of one file.
const PROBLEMS: usize = 20;

/// The result of a check of the job store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreCheck {
    /// The number of files.
    pub files: u64,
    /// The number of jobs in them.
    pub jobs: u64,
    /// The number of returns in them.
    pub returns: u64,
    /// One sentence for each problem.
    pub problems: Vec<String>,
}

impl JobStore {
    /// Checks every page and index, decodes every job with its states, and looks for returns without a job
    /// or without their payload.
    ///
    /// # Errors
    /// When a file cannot be opened.
    ///
    /// # Cancel safety
    /// The call changes nothing. A check of a file that was begun is finished.
    pub async fn check(&self) -> Result<StoreCheck, StoreError> {
        let mut checked = StoreCheck {
            files: 0,
            jobs: 0,
            returns: 0,
            problems: Vec::new(),
        };
        for start in self.partitions.all() {
            let found = self
                .upkeep
                .moment(start, |connection| Ok(check(connection)));
            let (jobs, returns, problems) = match found.await {
                // It was pruned meanwhile.
                Err(StoreError::Removed) => continue,
                found => found?,
            };
            checked.files += 1;
            checked.jobs += jobs;
            checked.returns += returns;
            let path = self.partitions.path(start);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let problems = problems.into_iter().map(|found| format!("{name}: {found}"));
            checked.problems.extend(problems);
        }
        Ok(checked)
    }
}

fn check(connection: &Connection) -> (u64, u64, Vec<String>) {
    let mut problems = Vec::new();
    let (mut jobs, mut returns) = (0, 0);
    let mut all = || -> Result<(), StoreError> {
        let mut pages = connection.prepare(&format!("PRAGMA integrity_check({PROBLEMS})"))?;
        let mut found = pages.query([])?;
        while let Some(row) = found.next()? {
            let line: String = row.get(0)?;
            if line != "ok" {
                problems.push(line);
            }
        }
        let mut rows = connection.prepare(&format!("SELECT {}, states FROM jobs", rows::JOB))?;
        let mut found = rows.query([])?;
        while let Some(row) = found.next()? {
            jobs += 1;
            let job = row.get(0)?;
            let states = || minion_states::read_all(connection, job, columns::blob(row, 9)?);
            let read = rows::job(row).and_then(|_| states());
            if let Err(error) = read
                && problems.len() < PROBLEMS
            {
                let jid = jid::from_micros(job);
                problems.push(format!("job {jid}: {error}"));
            }
        }
        let count = "SELECT count(*) FROM returns";
        returns = connection
            .query_row(count, [], |row| row.get::<_, i64>(0))?
            .unsigned_abs();
        let strays: i64 = connection.query_row(
            "SELECT count(*) FROM returns
             WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.jid = returns.jid)",
            [],
            |row| row.get(0),
        )?;
        if strays > 0 {
            problems.push(format!("{strays} returns have no job"));
        }
        let without: i64 = connection.query_row(
            "SELECT count(*) FROM returns WHERE parts IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM return_parts WHERE number = returns.parts)",
            [],
            |row| row.get(0),
        )?;
        if without > 0 {
            problems.push(format!("{without} large returns have lost their payload"));
        }
        Ok(())
    };
    if let Err(error) = all() {
        problems.push(error.to_string());
    }
    (jobs, returns, problems)
}
