//! What a minion may still begin, for one that comes back.

use saline_protocol::message::{Jid, JobsPage, MasterTime, MinionId, OfferState, SignedJob};

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
        let mut after = after.and_then(jid::to_micros).unwrap_or(i64::MIN);
        let number = |signed: &SignedJob| jid::to_micros(&signed.job.jid);
        loop {
            let numbers = lock(&self.open).unbegun(minion, after, now, PAGE_JOBS + 1);
            if numbers.is_empty() {
                return Ok(JobsPage {
                    jobs: Vec::new(),
                    more: false,
                });
            }
            let page = self
                .reader
                .call(move |connections| page(connections, &numbers));
            let mut page = page.await?;
            after = page.jobs.iter().filter_map(number).max().unwrap_or(after);
            let handed = self
                .hand_over(minion, page.jobs.iter().filter_map(number), now)
                .await?;
            // Some may have been cancelled, have expired or begun while they were read.
            page.jobs
                .retain(|signed| number(signed).is_some_and(|number| handed.contains(&number)));
            // An empty page is the last one to a minion.
            if !page.jobs.is_empty() || !page.more {
                return Ok(page);
            }
        }
    }
}

impl JobStore {
    /// Notes that jobs which were queued for a minion are handed over to it, before they are: from here on
    /// only the minion knows whether it begins them. Returns those that it may begin.
    pub(super) async fn hand_over(
        &self,
        minion: &MinionId,
        jobs: impl Iterator<Item = i64>,
        now: MasterTime,
    ) -> Result<Vec<i64>, StoreError> {
        let (handed, unwritten) = {
            let mut open = lock(&self.open);
            let (mut handed, mut unwritten) = (Vec::new(), false);
            for number in jobs {
                if open.unbegun(minion, number.saturating_sub(1), now, 1) != [number] {
                    continue;
                }
                open.set(number, minion, OfferState::Offered, now);
                unwritten |= open.is_changed(number);
                handed.push(number);
            }
            (handed, unwritten)
        };
        if unwritten {
            self.flush_all().await?;
        }
        Ok(handed)
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
            signature: rows::blob(row, 9)?.to_vec(),
        };
        let size = rows::job_size(&job.job);
        if !jobs.is_empty() && (size > room || jobs.len() == PAGE_JOBS) {
            return Ok(JobsPage { jobs, more: true });
        }
        #[cfg(feature = "chaos")]
        if jobs.len() == 32 && saline_protocol::sabotage::is_on("truncate-catchup") {
            return Ok(JobsPage { jobs, more: false });
        }
        room = room.saturating_sub(size);
        jobs.push(job);
    }
    Ok(JobsPage { jobs, more: false })
}
