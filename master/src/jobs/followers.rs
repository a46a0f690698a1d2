//! Those who follow what is received, and what each of them lost because it was pruned before they had it.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use saline_messages::{Jid, MinionId};

use super::{JobStore, lock, received};

/// Whether a follower wants the publication of a job or the return of a minion, where the order of the job named these
/// destinations.
pub(crate) type WantsReceived =
    Arc<dyn Fn(&Jid, Option<&MinionId>, &[String]) -> bool + Send + Sync>;

/// A follower of what is received.
pub(crate) struct ReceiptFollower {
    wants: WantsReceived,
    /// The receipt number up to which it has everything.
    done: AtomicI64,
    lost: AtomicU64,
}

impl ReceiptFollower {
    /// Creates a follower that has everything up to a receipt number.
    pub(crate) fn new(wants: WantsReceived, done: i64) -> Self {
        Self {
            wants,
            done: AtomicI64::new(done),
            lost: AtomicU64::new(0),
        }
    }

    /// Returns what it wants.
    pub(crate) fn wants(&self) -> &WantsReceived {
        &self.wants
    }

    /// Notes that it has everything up to a receipt number.
    pub(crate) fn set_done(&self, receipt: i64) {
        self.done.fetch_max(receipt, Ordering::Relaxed);
    }

    /// Returns how many publications and returns were pruned that it wanted and did not have, or was about to have.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for ReceiptFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiptFollower")
            .field("done", &self.done)
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}

/// The followers of a store.
pub(super) type Followers = Mutex<Vec<Arc<ReceiptFollower>>>;

impl JobStore {
    /// Has what is pruned before this follower has it counted.
    pub(crate) fn follow(&self, follower: Arc<ReceiptFollower>) {
        lock(&self.followers).push(follower);
    }

    /// Returns for each follower how much of a partition it wants and does not have.
    pub(super) async fn unread(&self, start: i64) -> Vec<(Arc<ReceiptFollower>, u64)> {
        let followers = lock(&self.followers).clone();
        let mut unread = Vec::with_capacity(followers.len());
        for follower in followers {
            let done = follower.done.load(Ordering::Relaxed);
            let wants = Arc::clone(&follower.wants);
            let counting = self.reader.moment(start, move |connection| {
                received::count_after(connection, done, |jid, minion, returners| {
                    wants(jid, minion, returners)
                })
            });
            // What cannot be counted cannot be read either, and its reader says so.
            let count = counting.await.unwrap_or(0);
            unread.push((follower, count));
        }
        unread
    }
}

/// Counts what followers did not have before a pruning as lost, but for what is `left` after it.
pub(super) fn count_lost(
    before: Vec<(Arc<ReceiptFollower>, u64)>,
    left: &[(Arc<ReceiptFollower>, u64)],
) {
    for (follower, unread) in before {
        let left = left.iter().find(|(other, _)| Arc::ptr_eq(other, &follower));
        let lost = unread.saturating_sub(left.map_or(0, |(_, left)| *left));
        follower.lost.fetch_add(lost, Ordering::Relaxed);
    }
}
