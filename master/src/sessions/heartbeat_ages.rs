//! How long ago minions were heard, for metrics.

use std::time::Duration;

use saline_messages::MinionId;

use super::session::lock;
use super::table::{Sessions, Table};

/// How long ago the minions were heard that this master has heard and still accepts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct HeartbeatAges {
    /// The age of the last request of the minion that has been silent for the longest time.
    pub(crate) oldest: Duration,
    /// How many minions have been silent for more than two heartbeats, and are not present any more.
    pub(crate) silent_2: usize,
    /// How many minions have been silent for more than ten heartbeats.
    pub(crate) silent_10: usize,
}

impl Sessions {
    /// Returns how long ago minions were heard.
    pub(crate) fn heartbeat_ages(&self) -> HeartbeatAges {
        let (now, table) = (self.time.now(), lock(&self.table));
        let mut ages = HeartbeatAges::default();
        for (_, heard) in heard(&table) {
            let age = Duration::from_millis(now.saturating_sub(heard));
            ages.oldest = ages.oldest.max(age);
            ages.silent_2 += usize::from(age > self.heartbeat * 2);
            ages.silent_10 += usize::from(age > self.heartbeat * 10);
        }
        ages
    }

    /// Returns how long ago each minion was heard, by id, and whether it is present.
    pub(crate) fn heartbeat_age_by_minion(&self) -> Vec<(MinionId, Duration, bool)> {
        let (now, table) = (self.time.now(), lock(&self.table));
        let minions = heard(&table).map(|(id, heard)| {
            let entry = table.of_minion(id);
            let is_present = entry.is_some_and(|entry| self.is_alive(entry, now));
            let age = Duration::from_millis(now.saturating_sub(heard));
            (id.clone(), age, is_present)
        });
        let mut minions: Vec<_> = minions.collect();
        drop(table);
        minions.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        minions
    }
}

/// Returns the accepted minions that were heard since the master started, each with the time of its last request.
fn heard(table: &Table) -> impl Iterator<Item = (&MinionId, u64)> {
    let seated = table.minions.iter();
    let seated = seated.filter_map(|(id, session)| Some((id, table.all.get(session)?.heard)));
    seated.chain(table.heard_departed())
}
