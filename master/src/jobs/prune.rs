//! Removes old jobs: whole partitions, so that no return ever waits for it, and a full disk can be
//! pruned.

use std::ops::Range;

use saline_messages::{Jid, MasterTime};

use super::disk::partitions::Connections;
use super::disk::{reserve, rows};
use super::{JobStore, StoreError, jid, lock, lookup};

/// The jobs that a pruning removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// The jobs before this jid are gone.
    pub before: Jid,
    /// Whether they went before their time, since the store had reached its size.
    pub early: bool,
    /// Whether some of them were under way.
    pub under_way: bool,
}

impl JobStore {
    /// Removes the partitions whose jobs were all published before `before`, and the oldest ones while
    /// the store is above its size. Keeps a partition with a job that may still begin, or that a minion
    /// has reported as running since `before`, unless the store is above its size; and always the
    /// newest, so that jids keep rising after a restart. Returns what was removed.
    ///
    /// # Errors
    /// When the store is closed. What was removed before is gone.
    ///
    /// # Cancel safety
    /// The jobs that were removed stay removed, and the next call continues. The file of the last one may
    /// stay until the next start, which reads it again.
    pub async fn prune(&self, before: MasterTime) -> Result<Vec<Pruned>, StoreError> {
        let before_micros = rows::from_time(before).saturating_mul(1_000);
        self.delete_the_undeleted().await;
        let mut pruned = Vec::new();
        for range in self.removable() {
            if self.is_old(&range, before_micros).await && !self.is_alive(&range, before) {
                pruned.push(self.remove(range, before, false).await?);
            }
        }
        self.keep_reserve().await?;
        let Some(most) = self.settings.max_bytes else {
            return Ok(pruned);
        };
        let sizes = self.partitions.all();
        let mut total: u64 = sizes.iter().map(|start| self.partitions.size(*start)).sum();
        for range in self.removable() {
            if total <= most {
                break;
            }
            total -= self.partitions.size(range.start).min(total);
            pruned.push(self.remove(range, before, true).await?);
        }
        Ok(pruned)
    }

    /// Makes the reserve if it is missing. After the old jobs have gone a full disk may have room again.
    async fn keep_reserve(&self) -> Result<(), StoreError> {
        let folder = self.settings.folder.clone();
        self.upkeep
            .call(move |_| {
                reserve::keep(&folder);
                Ok(())
            })
            .await
    }

    /// Whether all jobs of a partition are older than `before_micros`. The next partition's beginning tells, so
    /// that nothing has to be opened, which a full disk may forbid; if it does not, the last job.
    async fn is_old(&self, range: &Range<i64>, before_micros: i64) -> bool {
        if range.end <= before_micros {
            return true;
        }
        if range.start >= before_micros {
            return false;
        }
        match self.read(range.start, lookup::last_job).await {
            Ok(last) => last.is_none_or(|last| last < before_micros),
            Err(error) => {
                tracing::warn!("old jobs are kept, because their file cannot be read: {error}");
                false
            }
        }
    }

    /// Returns the jids of every partition but the newest, the oldest first.
    fn removable(&self) -> Vec<Range<i64>> {
        let starts = self.partitions.all();
        starts.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    fn is_alive(&self, range: &Range<i64>, since: MasterTime) -> bool {
        let now = self.now();
        lock(&self.open).any_alive(range.clone(), now, since)
    }

    async fn remove(
        &self,
        range: Range<i64>,
        before: MasterTime,
        early: bool,
    ) -> Result<Pruned, StoreError> {
        let under_way = self.is_alive(&range, before);
        let start = range.start;
        let before = jid::from_micros(range.end);
        // From here on no thread uses it; what is queued for it is answered as removed.
        self.partitions.remove(start);
        self.reader.call(closed(start)).await?;
        self.writer.forget(start).await?;
        lock(&self.open).forget(range);
        lock(&self.transfers).forget_partition(start);
        self.upkeep.call(closed(start)).await?;
        lock(&self.undeleted).push(start);
        self.delete_the_undeleted().await;
        Ok(Pruned {
            before,
            early,
            under_way,
        })
    }

    /// Deletes the partitions that no thread uses any more. One that cannot be deleted is left for the
    /// next time.
    async fn delete_the_undeleted(&self) {
        let mut left = Vec::new();
        let doomed = std::mem::take(&mut *lock(&self.undeleted));
        for start in doomed {
            let delete =
                move |connections: &mut Connections| connections.partitions().delete(start);
            if let Err(error) = self.upkeep.call(delete).await {
                tracing::warn!("a file of removed jobs was not deleted: {error}");
                left.push(start);
            }
        }
        lock(&self.undeleted).extend(left);
    }
}

/// Closes a thread's connection to a partition.
fn closed(start: i64) -> impl FnOnce(&mut Connections) -> Result<(), StoreError> + Send + 'static {
    move |connections| {
        connections.forget(start);
        Ok(())
    }
}
