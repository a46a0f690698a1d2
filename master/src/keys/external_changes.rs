//! Notices accepted keys that were moved, replaced or removed by hand while a master runs.
//!
//! The files are looked at without the lock of those who change keys, since each look may take long on a network
//! file system; only what seems to be changed is looked at again under it.
//!
//! The master looks for changes every second, since operators move key files by hand. A file that is moved, removed or replaced
//! changes its folder: while neither folder changes, the master looks at the files themselves, which cost a system call each, less
//! often, to find those that were overwritten. A file without a key may be half written: it does not count yet, and is read
//! again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use saline_channel::KeyError;
use saline_messages::MinionId;
use saline_protocol::transport::Instant;

use super::KeyStore;
use super::folder::{AT_REST, FileStamp, Found};

/// How often the files are read while their folders do not change.
const OVERWRITTEN: Duration = Duration::from_secs(10);

/// The accepted keys as they were seen last.
#[derive(Debug, Default)]
pub(super) struct SeenKeys {
    /// None before the first look. Shared with the look that is under way.
    keys: Option<Arc<HashMap<MinionId, SeenKey>>>,
    /// The keys that were missing all at once, until one of them is back.
    missing: HashSet<MinionId>,
    /// The keys that were accepted through this store since the last look.
    accepted: HashMap<MinionId, [u8; 32]>,
    /// The last look at every file, if only files that are overwritten can have changed since while the folders have not.
    settled: Option<Settled>,
}

/// A reading of all files after which none had to be read again.
#[derive(Debug, Clone, Copy)]
struct Settled {
    folders: FolderTimes,
    looked: Instant,
}

/// When the folders of accepted and of rejected keys were changed last.
type FolderTimes = [SystemTime; 2];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SeenKey {
    identity: [u8; 32],
    /// The file's stamp, if it can be trusted.
    stamp: Option<FileStamp>,
    /// Whether the file held no key at the last look.
    was_unreadable: bool,
}

/// An accepted key that was changed by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalChange {
    /// The minion whose key it was.
    pub id: MinionId,
    /// The key that is accepted now, if there is one.
    pub identity: Option<[u8; 32]>,
}

/// The changes of the accepted keys since the last look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyChanges {
    /// The keys that were accepted at the last look and are not now, or are others now, and were not changed
    /// through this store.
    pub changed: Vec<ExternalChange>,
    /// The keys that were accepted since, by hand or through this store; all of them at the first look.
    pub accepted: Vec<(MinionId, [u8; 32])>,
    /// The ids with a file among the accepted keys that has not held a key while this store is open, so that
    /// nobody knows which key is accepted: the file may be half written.
    pub unreadable: Vec<MinionId>,
    /// The ids whose files are all missing since they were so at once, as when their folder is not mounted.
    pub missing: Vec<MinionId>,
}

/// A look at the accepted keys, taken while others may change them.
pub(super) struct KeyScan {
    now: SystemTime,
    /// The keys that the look before found.
    before: Arc<HashMap<MinionId, SeenKey>>,
    /// The keys that are there.
    found: HashMap<MinionId, SeenKey>,
    /// The ids with a file in the folder of accepted keys, sorted.
    files: Arc<Vec<MinionId>>,
    /// As in the changes.
    unreadable: Vec<MinionId>,
}

impl SeenKeys {
    /// Whether the files need not be read, if these are the times of the folders.
    fn is_settled(&self, folders: Option<FolderTimes>, now: Instant) -> bool {
        self.settled.is_some_and(|settled| {
            folders == Some(settled.folders) && now.duration_since(settled.looked) < OVERWRITTEN
        })
    }

    /// Notes a look, before which the folders had these times.
    fn note_look(&mut self, folders: Option<FolderTimes>, now: Instant, found: &KeyChanges) {
        let are_known = |keys: &Arc<HashMap<MinionId, SeenKey>>| {
            keys.values()
                .all(|seen| seen.stamp.is_some() && !seen.was_unreadable)
        };
        let is_settled = found.unreadable.is_empty()
            && found.missing.is_empty()
            && self.keys.as_ref().is_some_and(are_known);
        let settled = |folders| Settled {
            folders,
            looked: now,
        };
        self.settled = folders.filter(|_| is_settled).map(settled);
    }

    /// Whether the key of this id is missing together with all others.
    pub(super) fn is_missing(&self, id: &MinionId) -> bool {
        self.missing.contains(id)
    }

    /// Notes a change that this process has made.
    pub(super) fn note(&mut self, id: &MinionId, accepted: Option<[u8; 32]>) {
        let Some(keys) = &mut self.keys else {
            return;
        };
        let keys = Arc::make_mut(keys);
        match accepted {
            Some(identity) => {
                let seen = SeenKey {
                    identity,
                    stamp: None,
                    was_unreadable: false,
                };
                keys.insert(id.clone(), seen);
                self.accepted.insert(id.clone(), identity);
            }
            None => {
                keys.remove(id);
                self.accepted.remove(id);
                self.missing.remove(id);
            }
        }
    }
}

impl KeyStore {
    /// Notes that the keys of these minions, all that were accepted when the master ran last, were missing at its start.
    pub fn note_missing(&self, ids: Vec<MinionId>) {
        self.acting().seen.missing.extend(ids);
    }

    /// Returns the minions whose accepted keys have all gone at once, sorted, until one of them is back or an operator
    /// deletes them.
    pub fn missing(&self) -> Vec<MinionId> {
        let mut missing: Vec<MinionId> = self.acting().seen.missing.iter().cloned().collect();
        missing.sort_unstable();
        missing
    }

    /// Looks at the accepted keys, and compares them with the last look. A key that cannot be read now is looked
    /// at again the next time, and nothing has changed when two or more keys are all missing at once. Costs a
    /// system call for each accepted key, during which others may change keys, and blocks on the disk. While the folders
    /// do not change, it looks at their times alone, and at the files every ten seconds.
    ///
    /// # Errors
    /// When a folder cannot be read; nothing has been noted.
    pub fn external_changes(&self) -> Result<KeyChanges, KeyError> {
        // Read before the files, so that a change in between is noticed the next time.
        let (folders, now) = (self.folder_times()?, self.clock.now());
        let before = {
            let seen = &self.acting().seen;
            if seen.is_settled(folders, now) {
                return Ok(KeyChanges::default());
            }
            seen.keys.clone()
        };
        if let Some(before) = before {
            let scan = self.scan(before)?;
            let changes = self.confirm(scan);
            self.acting().seen.note_look(folders, now, &changes);
            return Ok(changes);
        }
        // Nothing can be compared yet, so nothing may change meanwhile.
        let mut acting = self.acting();
        let KeyScan {
            found, unreadable, ..
        } = self.scan(Arc::default())?;
        let all = found.iter().map(|(id, seen)| (id.clone(), seen.identity));
        let accepted = all.collect();
        acting.seen.keys = Some(Arc::new(found));
        Ok(KeyChanges {
            accepted,
            unreadable,
            ..KeyChanges::default()
        })
    }

    /// Returns the times of the folders; none when one is gone, or was changed so lately that the next change may have the
    /// same time.
    fn folder_times(&self) -> Result<Option<FolderTimes>, KeyError> {
        let (accepted, rejected) = (self.accepted.changed()?, self.rejected.changed()?);
        let times = accepted.zip(rejected).map(<FolderTimes>::from);
        let now = self.clock.wall();
        let is_at_rest = |at: &SystemTime| now.duration_since(*at).is_ok_and(|age| age > AT_REST);
        Ok(times.filter(|times| times.iter().all(is_at_rest)))
    }

    /// Takes the look with which [`external_changes`](Self::external_changes) begins again.
    #[cfg(test)]
    pub(super) fn scan_again(&self) -> KeyScan {
        let before = self.acting().seen.keys.clone();
        self.scan(before.unwrap_or_default())
            .expect("the folders of a test can be read")
    }

    fn scan(&self, before: Arc<HashMap<MinionId, SeenKey>>) -> Result<KeyScan, KeyError> {
        let now = self.clock.wall();
        let accepted = self.accepted_ids()?;
        let rejected = self.ids().rejected.get_all(&self.rejected, now)?;
        let mut unreadable = self.ids().accepted.without_key();
        let rejects_every_key = |id: &MinionId| {
            rejected.binary_search(id).is_ok() && matches!(self.rejected.read(id), Ok(Found::NoKey))
        };
        unreadable.retain(|id| !rejects_every_key(id));
        let mut found = HashMap::with_capacity(accepted.len());
        for id in accepted.iter() {
            let Some(seen) = self.see(id, before.get(id).copied(), now) else {
                continue;
            };
            let may_be_rejected = rejected.binary_search(id).is_ok();
            if !may_be_rejected || !self.rejects(id, &seen.identity)? {
                found.insert(id.clone(), seen);
            }
        }
        Ok(KeyScan {
            now,
            before,
            found,
            files: accepted,
            unreadable,
        })
    }

    /// Judges a look. What this store has changed since it was taken is left to the next one, and what seems to
    /// be changed by hand is looked at again now that nobody else changes keys.
    pub(super) fn confirm(&self, scan: KeyScan) -> KeyChanges {
        let mut acting = self.acting();
        let current = acting.seen.keys.take().unwrap_or_default();
        let is_there = |id: &MinionId| scan.files.binary_search(id).is_ok();
        let mut missing = std::mem::take(&mut acting.seen.missing);
        if missing.iter().any(is_there) {
            missing.clear();
        }
        // Keys that are accepted meanwhile do not count: they may lie in the place of a folder that is not mounted.
        if missing.is_empty() && scan.before.len() > 1 && !scan.before.keys().any(is_there) {
            missing = scan.before.keys().cloned().collect();
            tracing::error!(
                "all {} accepted keys are missing at once, as when their folder is not mounted: their sessions end \
                 in a minute if none is back; `saline-key -D` revokes them, and withdraws their open jobs",
                missing.len()
            );
        }
        let mut accepted = std::mem::take(&mut acting.seen.accepted);
        let mut changed = Vec::new();
        let mut keys = HashMap::with_capacity(scan.found.len());
        let gone = current.keys().filter(|id| !scan.found.contains_key(*id));
        for id in scan.found.keys().chain(gone) {
            let (old, found) = (current.get(id).copied(), scan.found.get(id).copied());
            let seen = if old != scan.before.get(id).copied() {
                old
            } else if old.map(|old| old.identity) == found.map(|found| found.identity) {
                found
            } else if missing.contains(id) && !self.is_rejected_now(id, old) {
                old
            } else {
                self.see_again(id, old, scan.now)
            };
            match (old, seen) {
                (None, Some(seen)) => {
                    accepted.insert(id.clone(), seen.identity);
                }
                (Some(old), seen) if Some(old.identity) != seen.map(|seen| seen.identity) => {
                    let identity = seen.map(|seen| seen.identity);
                    let id = id.clone();
                    changed.push(ExternalChange { id, identity });
                }
                _ => {}
            }
            if let Some(seen) = seen {
                keys.insert(id.clone(), seen);
            }
        }
        // They are told when their files are back.
        accepted.retain(|id, _| !missing.contains(id));
        acting.seen.keys = Some(Arc::new(keys));
        let missing_now = missing.iter().cloned().collect();
        acting.seen.missing = missing;
        KeyChanges {
            changed,
            accepted: accepted.into_iter().collect(),
            unreadable: scan.unreadable,
            missing: missing_now,
        }
    }

    /// Whether a key that is missing was rejected by hand.
    fn is_rejected_now(&self, id: &MinionId, seen: Option<SeenKey>) -> bool {
        seen.is_some_and(|seen| matches!(self.rejects(id, &seen.identity), Ok(true)))
    }

    /// Looks at one key while nobody else changes keys. Returns none when it is not accepted.
    fn see_again(&self, id: &MinionId, old: Option<SeenKey>, now: SystemTime) -> Option<SeenKey> {
        let look = || {
            let seen = match self.accepted.exists(id)? {
                true => self.see(id, old, now),
                false => None,
            };
            Ok(match seen {
                Some(seen) if self.rejects(id, &seen.identity)? => None,
                seen => seen,
            })
        };
        look().unwrap_or_else(|error| unseen(id, old, &error))
    }

    /// Looks at one key that has a file. Returns none when it holds no key, which is judged at the second look:
    /// it may be half written.
    fn see(&self, id: &MinionId, old: Option<SeenKey>, now: SystemTime) -> Option<SeenKey> {
        match self.look(id, old, now) {
            Ok(Some(seen)) => Some(seen),
            Ok(None) => old.filter(|old| !old.was_unreadable).map(|old| SeenKey {
                stamp: None,
                was_unreadable: true,
                ..old
            }),
            Err(error) => unseen(id, old, &error),
        }
    }

    /// Looks at the file of an accepted key, and reads it if it may have changed. Returns none when it holds
    /// no key.
    fn look(
        &self,
        id: &MinionId,
        old: Option<SeenKey>,
        now: SystemTime,
    ) -> Result<Option<SeenKey>, KeyError> {
        let Some(stamp) = self.accepted.stamp(id)? else {
            return Ok(None);
        };
        if let Some(old) = old
            && old.stamp == Some(stamp)
        {
            return Ok(Some(old));
        }
        let Found::Key(identity) = self.accepted.read(id)? else {
            return Ok(None);
        };
        let is_at_rest = stamp.is_older_than(now, AT_REST);
        Ok(Some(SeenKey {
            identity,
            stamp: is_at_rest.then_some(stamp),
            was_unreadable: false,
        }))
    }
}

/// Returns what is assumed of a key that cannot be looked at now: it is as it was.
fn unseen(id: &MinionId, old: Option<SeenKey>, error: &KeyError) -> Option<SeenKey> {
    tracing::warn!("cannot see whether the key of minion {id} has changed: {error}");
    old.map(|old| SeenKey { stamp: None, ..old })
}

#[cfg(test)]
mod tests;
