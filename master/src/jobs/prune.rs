//! Removes old jobs: whole partitions, so that no return ever waits for it, and a full disk can be
//! pruned.

use std::ops::Range;

use saline_protocol::message::{Jid, MasterTime};

use super::partitions::Connections;
use super::{JobStore, StoreError, jid, lookup, rows};

/// What was removed.
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
    /// When a file cannot be deleted. What was removed before is gone.
    ///
    /// # Cancel safety
    /// What was removed is gone, and the next call continues.
    pub async fn prune(&self, before: MasterTime) -> Result<Vec<Pruned>, StoreError> {
        let before_micros = rows::from_time(before).saturating_mul(1_000);
        let mut pruned = Vec::new();
        for range in self.spans() {
            if range.start >= before_micros {
                break;
            }
            let last = self.read(range.start, lookup::last_job).await?;
            let is_old = last.is_none_or(|last| last < before_micros);
            if is_old && !self.is_alive(&range, before) {
                pruned.push(self.remove(range, before, false).await?);
            }
        }
        let Some(most) = self.settings.max_bytes else {
            return Ok(pruned);
        };
        let sizes = self.partitions.all();
        let mut total: u64 = sizes.iter().map(|start| self.partitions.size(*start)).sum();
        for range in self.spans() {
            if total <= most {
                break;
            }
            total -= self.partitions.size(range.start).min(total);
            pruned.push(self.remove(range, before, true).await?);
        }
        Ok(pruned)
    }

    /// Returns the jids of every partition but the newest, the oldest first.
    fn spans(&self) -> Vec<Range<i64>> {
        let starts = self.partitions.all();
        starts.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    fn is_alive(&self, range: &Range<i64>, since: MasterTime) -> bool {
        let now = self.now();
        self.open_jobs().any_alive(range.clone(), now, since)
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
        // From here on no thread opens it; what is queued for it is answered as removed.
        self.partitions.remove(start);
        self.open_jobs().forget(range);
        let closed = move |connections: &mut Connections| {
            connections.forget(start);
            Ok(())
        };
        self.reader.call(closed).await?;
        self.writer.forget(start).await?;
        self.upkeep
            .call(move |connections| {
                connections.forget(start);
                connections.partitions().delete(start)
            })
            .await?;
        Ok(Pruned {
            before,
            early,
            under_way,
        })
    }
}
