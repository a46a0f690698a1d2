//! What a minion may still begin, for one that comes back.

use saline_protocol::message::{Jid, JobsPage, MasterTime, MinionId, SignedJob};

use super::partitions::Connections;
use super::{JobStore, StoreError, jid, lock, rows};

/// The largest number of jobs in one page.
const PAGE_JOBS: usize = 256;

/// The largest size of one page in bytes, except for a single larger job.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

impl JobStore {
    /// Returns the jobs after `after` that a minion may still begin at `now`: unexpired, and offered to it
    /// or queued for it. Running jobs are not included: if a crash interrupted one, the minion returns
    /// it by itself.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn pending_jobs(
        &self,
        minion: &MinionId,
        after: Option<&Jid>,
        now: MasterTime,
    ) -> Result<JobsPage, StoreError> {
        let after = after.and_then(jid::to_micros).unwrap_or(i64::MIN);
        let numbers = lock(&self.open).unbegun(minion, after, now, PAGE_JOBS + 1);
        if numbers.is_empty() {
            return Ok(JobsPage {
                jobs: Vec::new(),
                more: false,
            });
        }
        self.reader
            .call(move |connections| page(connections, &numbers))
            .await
    }
}

fn page(connections: &mut Connections, numbers: &[i64]) -> Result<JobsPage, StoreError> {
    let mut jobs = Vec::new();
    let mut room = PAGE_BYTES;
    for number in numbers {
        let Some(start) = connections.partitions().holding(*number) else {
            continue;
        };
        let connection = match connections.of(start) {
            Err(StoreError::Removed) => continue,
            connection => connection?,
        };
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {}, signature FROM jobs WHERE jid = ?1",
            rows::JOB
        ))?;
        let mut found = statement.query([number])?;
        let Some(row) = found.next()? else {
            continue;
        };
        let job = SignedJob {
            job: rows::job(row)?,
            signature: rows::blob(row, 8)?.to_vec(),
        };
        let size = rows::job_size(&job.job);
        if !jobs.is_empty() && (size > room || jobs.len() == PAGE_JOBS) {
            return Ok(JobsPage { jobs, more: true });
        }
        room = room.saturating_sub(size);
        jobs.push(job);
    }
    Ok(JobsPage { jobs, more: false })
}
