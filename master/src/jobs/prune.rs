//! Removes old jobs: whole partitions, so that no return waits for it, and a full disk can be pruned. A partition in which
//! some jobs are under way is reduced to them instead; that needs room on the disk, and returns wait while the rows are copied.

use std::ops::Range;
use std::sync::Arc;

use saline_messages::{Jid, MasterTime};

use super::{JobStore, StoreError, followers, jid, lock, lookup, received};
use crate::disk::partitions::Connections;
use crate::disk::{columns, reserve};
use crate::jobs::tables::reduction;

/// The size in bytes from which a partition that was reduced before is reduced again for the size of the store: minions have
/// returned large payloads since.
const GROWN: u64 = 1024 * 1024;

/// The jobs that a pruning removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// The jobs before this jid are gone.
    pub before: Jid,
    /// Whether the jobs were removed before their time, since the store had reached its size.
    pub early: bool,
    /// Whether some of the removed jobs were under way.
    pub under_way: bool,
    /// The number of older jobs that stay, since they are under way. Their large returns are removed.
    pub kept: usize,
}

impl JobStore {
    /// Removes the partitions whose jobs were all published before `before`, and the oldest ones while
    /// the store is above its size. Of a partition with jobs that may still begin, or that a minion has reported as running
    /// since `before`, these jobs stay with their states, and with the returns that were received since `before`; of the
    /// other returns only small payloads. What stayed is removed when its last return is older than `before`, and
    /// earlier when the store is above its size with nothing else to remove. The newest partition always stays, so that jids keep
    /// rising after a restart. Returns what was removed.
    ///
    /// # Errors
    /// When the store is closed. What was removed before is gone.
    ///
    /// # Cancel safety
    /// The jobs that were removed stay removed, and the next call continues. The file of the last one may
    /// stay until the next start, which reads it again, or deletes it if another one has taken its place.
    pub async fn prune(&self, before: MasterTime) -> Result<Vec<Pruned>, StoreError> {
        self.delete_the_undeleted().await;
        let mut pruned = Vec::new();
        for range in self.removable() {
            pruned.extend(self.prune_if_old(range, before).await?);
        }
        self.keep_reserve().await?;
        let Some(most) = self.settings.max_bytes else {
            return Ok(pruned);
        };
        let sizes = self.partitions.all();
        let mut total: u64 = sizes.iter().map(|start| self.partitions.size(*start)).sum();
        let mut reduced = Vec::new();
        for range in self.removable() {
            if total <= most {
                return Ok(pruned);
            }
            let size = self.partitions.size(range.start);
            if self.alive(&range, before).is_empty() {
                pruned.push(self.remove(range, before, true).await?);
                total -= size.min(total);
                continue;
            }
            reduced.push(range.clone());
            if self.is_reduced(range.start) && size < GROWN {
                continue;
            }
            if let Some(part) = self.reduce(range.clone(), before, true).await? {
                total = total - size.min(total) + self.partitions.size(range.start);
                pruned.push(part);
            }
        }
        for range in reduced {
            if total <= most {
                break;
            }
            total -= self.partitions.size(range.start).min(total);
            pruned.push(self.remove(range, before, true).await?);
        }
        Ok(pruned)
    }

    /// Removes a partition whose jobs are all older than `before`, or reduces it to those that are under way. Returns what
    /// was removed, if anything was.
    async fn prune_if_old(
        &self,
        range: Range<i64>,
        before: MasterTime,
    ) -> Result<Option<Pruned>, StoreError> {
        let before_micros = micros(before);
        if !self.is_old(&range, before_micros).await {
            return Ok(None);
        }
        let (start, is_alive) = (range.start, !self.alive(&range, before).is_empty());
        match (self.is_reduced(start), is_alive) {
            (true, true) => Ok(None),
            (false, true) => self.reduce(range, before, false).await,
            // Jobs that have ended since are kept as long as others.
            (true, false) if self.has_return_since(start, before_micros).await => Ok(None),
            (_, false) => self.remove(range, before, false).await.map(Some),
        }
    }

    fn is_reduced(&self, start: i64) -> bool {
        self.partitions.reductions(start).is_some_and(|n| n > 0)
    }

    async fn has_return_since(&self, start: i64, since: i64) -> bool {
        // Receipt numbers are times.
        let last = self.reader.moment(start, received::last_receipt).await;
        last.is_ok_and(|last| last >= since)
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

    /// Returns the jobs of a partition that are under way.
    fn alive(&self, range: &Range<i64>, since: MasterTime) -> Vec<i64> {
        let now = self.now();
        lock(&self.open).alive(range.clone(), now, since)
    }

    /// Reduces a partition to its jobs that are under way. None if that fails: then it stays as it is.
    async fn reduce(
        &self,
        range: Range<i64>,
        before: MasterTime,
        early: bool,
    ) -> Result<Option<Pruned>, StoreError> {
        let (start, end, now) = (range.start, range.end, self.now());
        let from = match early {
            true => i64::MAX,
            false => micros(before),
        };
        let unread = self.unread(start).await;
        let (open, transfers) = (Arc::clone(&self.open), Arc::clone(&self.transfers));
        let reduce = move |connections: &mut Connections| {
            // The choice stays right while the rows are copied, since only this thread changes the disk.
            let kept = lock(&open).alive(range.clone(), now, before);
            reduction::reduce(connections, start, &kept, from)?;
            lock(&open).forget(range, &kept);
            lock(&transfers).forget_partition(start, &kept);
            Ok(kept.len())
        };
        let kept = match self.writer.alone(reduce).await {
            Ok(kept) => kept,
            Err(StoreError::Closed) => return Err(StoreError::Closed),
            Err(error) => {
                tracing::warn!(
                    "old jobs are kept, because those of them that are under way cannot be copied: {error}"
                );
                return Ok(None);
            }
        };
        self.delete_unused(start).await?;
        followers::count_lost(unread, &self.unread(start).await);
        Ok(Some(Pruned {
            before: jid::from_micros(end),
            early,
            under_way: false,
            kept,
        }))
    }

    async fn remove(
        &self,
        range: Range<i64>,
        before: MasterTime,
        early: bool,
    ) -> Result<Pruned, StoreError> {
        let under_way = !self.alive(&range, before).is_empty();
        let start = range.start;
        let before = jid::from_micros(range.end);
        followers::count_lost(self.unread(start).await, &[]);
        // From here on no thread uses it; what is queued for it is answered as removed.
        self.partitions.remove(start);
        self.writer.alone(closed(start)).await?;
        lock(&self.open).forget(range, &[]);
        lock(&self.transfers).forget_partition(start, &[]);
        self.delete_unused(start).await?;
        Ok(Pruned {
            before,
            early,
            under_way,
            kept: 0,
        })
    }

    /// Has the threads that read close their files of a partition, and deletes those that are not used any more.
    async fn delete_unused(&self, start: i64) -> Result<(), StoreError> {
        self.reader.call(closed(start)).await?;
        self.upkeep.call(closed(start)).await?;
        lock(&self.undeleted).push(start);
        self.delete_the_undeleted().await;
        Ok(())
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

fn micros(time: MasterTime) -> i64 {
    columns::from_time(time).saturating_mul(1_000)
}

/// Closes a thread's connection to a partition.
fn closed(start: i64) -> impl FnOnce(&mut Connections) -> Result<(), StoreError> + Send + 'static {
    move |connections| {
        connections.forget(start);
        Ok(())
    }
}
