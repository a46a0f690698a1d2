//! Finds the jobs that a minion may still begin when it comes back.

use std::sync::Arc;

use saline_messages::{Jid, JobsPage, MasterTime, MinionId, Secrets, SignedJob};

use super::secrets::StoredSecrets;
use super::{JobStore, StoreError, jid, lock};
use crate::disk::columns;
use crate::disk::partitions::Connections;
use crate::jobs::tables::rows;

/// How much one page holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageLimits {
    /// The largest number of jobs.
    pub(super) jobs: usize,
    /// The largest size in bytes, except for a single larger job.
    pub(super) bytes: usize,
}

/// The largest number of jobs in a page that a minion gets.
const MAX_JOBS: usize = 256;

/// The largest size in bytes of a page that a minion gets, whatever it asks for.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A page of jobs as read from the disk.
struct ReadPage {
    jobs: Vec<SignedJob>,
    /// The last job that was looked at, which may have been removed meanwhile.
    last: i64,
    /// Whether there are jobs after it.
    more: bool,
}

impl JobStore {
    /// Returns the jobs after `after` that a minion may still begin at `now`: unexpired, and offered to it
    /// or queued for it; of a batch if the minion has its turn. Running jobs are not included: if a crash interrupted one, the minion returns
    /// it by itself. The page has at most `bytes`, and fits into the largest message, but for a single larger job.
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
        bytes: u64,
    ) -> Result<JobsPage, StoreError> {
        // The sizes of the jobs leave their seal and their lengths out.
        let most = bytes.min(MAX_BYTES).min(self.settings.largest_payload / 2);
        let limits = PageLimits {
            jobs: MAX_JOBS,
            bytes: usize::try_from(most).unwrap_or(usize::MAX),
        };
        self.pending_page(minion, after, now, limits).await
    }

    /// Returns a page of [`pending_jobs`](Self::pending_jobs) within `limits`.
    pub(super) async fn pending_page(
        &self,
        minion: &MinionId,
        after: Option<&Jid>,
        now: MasterTime,
        limits: PageLimits,
    ) -> Result<JobsPage, StoreError> {
        let mut after = after.and_then(jid::to_micros).unwrap_or(i64::MIN);
        let number = |signed: &SignedJob| jid::to_micros(&signed.job.jid);
        loop {
            let numbers = lock(&self.open).unbegun(minion, after, now, limits.jobs + 1);
            if numbers.is_empty() {
                return Ok(JobsPage {
                    jobs: Vec::new(),
                    more: false,
                });
            }
            let secrets = Arc::clone(&self.secrets);
            let page = self
                .reader
                .call(move |connections| read_page(connections, &secrets, &numbers, limits));
            let ReadPage {
                mut jobs,
                last,
                more,
            } = page.await?;
            after = last;
            let handed = self
                .hand_over(minion, jobs.iter().filter_map(number), now)
                .await?;
            // Some may have been cancelled, have expired or begun while they were read.
            jobs.retain(|signed| number(signed).is_some_and(|number| handed.contains(&number)));
            // An empty page is the last one to a minion.
            if !jobs.is_empty() || !more {
                return Ok(JobsPage { jobs, more });
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
                let is_handed = match open.is_batch(number) {
                    // It is handed over when the minion claims it.
                    true => open.unbegun(minion, number.saturating_sub(1), now, 1) == [number],
                    false => open.claim(number, minion, now),
                };
                if !is_handed {
                    continue;
                }
                unwritten |= open.is_unwritten(number, minion);
                handed.push(number);
            }
            (handed, unwritten)
        };
        if unwritten {
            self.flush_hand_overs().await?;
        }
        Ok(handed)
    }
}

/// Reads the first of these jobs, which are one more than a page holds if there are so many.
fn read_page(
    connections: &mut Connections,
    secrets: &StoredSecrets,
    numbers: &[i64],
    limits: PageLimits,
) -> Result<ReadPage, StoreError> {
    let mut page = ReadPage {
        jobs: Vec::new(),
        last: i64::MIN,
        more: false,
    };
    let mut room = limits.bytes;
    for (at, number) in numbers.iter().enumerate() {
        #[cfg(feature = "chaos")]
        if at == 32 && saline_daemon::sabotage::is_on("truncate-catchup") {
            return Ok(page);
        }
        if at == limits.jobs {
            page.more = true;
            return Ok(page);
        }
        if let Some(signed) = read_signed(connections, secrets, *number)? {
            let secrets = signed.secrets.as_ref();
            let size = rows::job_size(&signed.job) + secrets.map_or(0, Secrets::size);
            if !page.jobs.is_empty() && size > room {
                page.more = true;
                return Ok(page);
            }
            room = room.saturating_sub(size);
            page.jobs.push(signed);
        }
        page.last = *number;
    }
    Ok(page)
}

/// Reads a job with its secrets; none if it was removed meanwhile.
pub(super) fn read_signed(
    connections: &mut Connections,
    secrets: &StoredSecrets,
    number: i64,
) -> Result<Option<SignedJob>, StoreError> {
    let Some(start) = connections.partitions().holding(number) else {
        return Ok(None);
    };
    let connection = match connections.of(start) {
        Err(StoreError::Removed) => return Ok(None),
        connection => connection?,
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {}, signature FROM jobs WHERE jid = ?1",
        rows::JOB
    ))?;
    let mut found = statement.query([number])?;
    let Some(row) = found.next()? else {
        return Ok(None);
    };
    Ok(Some(SignedJob {
        job: rows::job(row)?,
        signature: columns::blob(row, 9)?.to_vec(),
        secrets: secrets.read(connection, number)?,
    }))
}
