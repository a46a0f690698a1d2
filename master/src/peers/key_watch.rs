//! Watches the accepted keys. When the key of a minion was removed or replaced by hand, also while no master ran,
//! the watch revokes what the minion had. When all keys are missing at once, their folder may not be mounted: then it ends
//! their sessions after a minute, and revokes nothing until an operator says so.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_channel::KeyError;
use saline_messages::MinionId;
use saline_protocol::transport::Instant;

use super::Revocation;
use crate::clock::MasterClock;
use crate::keys::{ExternalChange, KeyAccess, KeyChanges, KeyStore};

/// How often the keys are looked at.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// How long sessions go on when all keys are missing at once.
const MISSING_FOR: Duration = Duration::from_secs(60);

/// The keys that are missing, all of them at once.
#[derive(Debug, Default)]
struct Missing {
    ids: HashSet<MinionId>,
    /// When they were seen to be missing; none when none are, or when their sessions have ended.
    since: Option<Instant>,
}

impl Missing {
    /// Takes what is missing now. Returns the minions whose keys were missing before and are not any more, or were
    /// deleted, and whether the sessions of those that are missing end now.
    fn update(&mut self, ids: HashSet<MinionId>, now: Instant) -> (Vec<MinionId>, bool) {
        let decided = self.ids.difference(&ids).cloned().collect();
        if ids.is_empty() {
            self.since = None;
        } else if self.ids.is_empty() {
            self.since = Some(now);
        }
        self.ids = ids;
        let is_over = |since: Instant| now.saturating_duration_since(since) >= MISSING_FOR;
        let ends = self.since.is_some_and(is_over);
        if ends {
            self.since = None;
        }
        (decided, ends)
    }
}

/// The watch over the accepted keys.
#[derive(Debug)]
pub struct KeyWatch {
    clock: MasterClock,
    keys: KeyAccess,
    revocation: Revocation,
    /// The minions whose files held no key, or could not be read, at the last look: the next one looks what has
    /// become of them.
    unreadable: Mutex<HashSet<MinionId>>,
    missing: Mutex<Missing>,
}

impl KeyWatch {
    /// Creates a watch that has seen nothing.
    pub(crate) fn new(clock: MasterClock, keys: KeyAccess, revocation: Revocation) -> Self {
        Self {
            clock,
            keys,
            revocation,
            unreadable: Mutex::default(),
            missing: Mutex::default(),
        }
    }

    /// Compares the keys with those that the job store has noted, and revokes minions whose keys were removed or
    /// replaced while no master ran. A key whose file cannot be read now was not removed: the watch looks at it
    /// again. To be called once, before minions are served.
    ///
    /// # Errors
    /// When the keys cannot be read.
    ///
    /// # Cancel safety
    /// A key that was revoked before the future is dropped stays revoked.
    pub async fn compare_at_start(&self) -> Result<(), KeyError> {
        // The code of the key store panicked, which the runtime logs.
        let Some(changes) = self.keys.with_minions(KeyStore::external_changes).await else {
            return Ok(());
        };
        let changes = changes?;
        let accepted: HashMap<MinionId, [u8; 32]> = changes.accepted.into_iter().collect();
        let unreadable: HashSet<MinionId> = changes.unreadable.into_iter().collect();
        let jobs = &self.revocation.jobs;
        let known = jobs.minions_with_keys_or_jobs();
        for id in known.iter().filter(|id| unreadable.contains(*id)) {
            tracing::warn!(
                "the file of the accepted key of minion {id} holds no key, or cannot be read: the minion is refused \
                 until it can be; delete the key with saline-key -d {id} to withdraw its open jobs"
            );
        }
        let has_file = |id: &MinionId| accepted.contains_key(id) || unreadable.contains(id);
        let new = accepted.iter().filter(|(id, key)| !jobs.has_key(id, **key));
        let mut changed: Vec<MinionId> = new.map(|(id, _)| id.clone()).collect();
        if known.len() > 1 && !known.iter().any(has_file) {
            tracing::error!(
                "all {} accepted keys are missing, as when their folder is not mounted: their minions are refused; \
                 `saline-key -D` revokes them, and withdraws their open jobs",
                known.len()
            );
            let note = move |keys: &KeyStore| keys.note_missing(known);
            // None when the code of the key store panicked, which the runtime logs.
            let _ = self.keys.with_minions(note).await;
        } else {
            self.revocation.grains.retain(has_file);
            self.revocation.mine.retain(has_file).await;
            for id in known.into_iter().filter(|id| !has_file(id)) {
                tracing::warn!(
                    "the key of minion {id} was removed while no master ran: its open jobs are withdrawn"
                );
                changed.push(id);
            }
        }
        self.unreadable().extend(unreadable);
        let unreadable = self.revocation.settle(changed).await;
        self.unreadable().extend(unreadable);
        Ok(())
    }

    /// Looks at the keys every second until the future is dropped.
    pub async fn run(&self) {
        let mut timer = self.clock.clock().interval(SCAN_INTERVAL);
        loop {
            timer.tick().await;
            match self.keys.with_minions(KeyStore::external_changes).await {
                Some(Ok(changes)) => self.follow(changes).await,
                Some(Err(error)) => tracing::error!(
                    "cannot look for changed key files: {error}; trying again in a second"
                ),
                // As above.
                None => {}
            }
        }
    }

    /// Has what has changed settled. Operators may have changed the same keys since they were read.
    async fn follow(&self, changes: KeyChanges) {
        let mut changed: Vec<MinionId> = changes.accepted.into_iter().map(|(id, _)| id).collect();
        let unreadable: HashSet<MinionId> = changes.unreadable.into_iter().collect();
        let before = std::mem::replace(&mut *self.unreadable(), unreadable.clone());
        changed.extend(before.into_iter().filter(|id| !unreadable.contains(id)));
        let missing: HashSet<MinionId> = changes.missing.into_iter().collect();
        let now = self.clock.clock().now();
        let (decided, ends_sessions) = self.missing().update(missing, now);
        changed.extend(decided);
        if ends_sessions {
            let missing: Vec<MinionId> = self.missing().ids.iter().cloned().collect();
            tracing::error!(
                "the keys of {} minions have been missing for a minute: their sessions end, and their open jobs stay \
                 until `saline-key -D` withdraws them",
                missing.len()
            );
            self.revocation.suspend(&missing).await;
        }
        let mut gone = Vec::new();
        for ExternalChange { id, identity } in changes.changed {
            let (what, list) = match identity {
                Some(_) => ("replaced", &mut changed),
                None => ("removed", &mut gone),
            };
            tracing::warn!(
                "the key file of minion {id} was {what} by hand: its session ends, and its open jobs are withdrawn"
            );
            list.push(id);
        }
        let unreadable = self.revocation.settle(changed).await;
        self.unreadable().extend(unreadable);
        // A file that held a key, and none at two looks, holds none any more.
        let gone = self.revocation.settle(gone).await;
        self.revocation.revoke(gone).await;
    }

    fn missing(&self) -> MutexGuard<'_, Missing> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unreadable(&self) -> MutexGuard<'_, HashSet<MinionId>> {
        self.unreadable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
