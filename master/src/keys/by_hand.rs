//! Notices accepted keys that were moved, replaced or removed by hand while a master runs.

use std::collections::HashMap;
use std::time::SystemTime;

use saline_protocol::channel::KeyError;
use saline_protocol::message::MinionId;

use super::KeyStore;
use super::folder::{AT_REST, FileStamp, Found};

/// The accepted keys as they were seen last.
#[derive(Debug, Default)]
pub(super) struct SeenKeys {
    /// None before the first look.
    keys: Option<HashMap<MinionId, SeenKey>>,
    /// Whether all keys were missing at the last look.
    all_missing: bool,
}

#[derive(Debug, Clone, Copy)]
struct SeenKey {
    identity: [u8; 32],
    /// The file's stamp, if it can be trusted.
    stamp: Option<FileStamp>,
    /// Whether the file held no key at the last look.
    was_unreadable: bool,
}

/// An accepted key that was changed by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedByHand {
    /// The minion whose key it was.
    pub id: MinionId,
    /// The key that is accepted now, if there is one.
    pub identity: Option<[u8; 32]>,
}

impl SeenKeys {
    /// Notes a change that this process has made.
    pub(super) fn note(&mut self, id: &MinionId, accepted: Option<[u8; 32]>) {
        let Some(keys) = &mut self.keys else {
            return;
        };
        match accepted {
            Some(identity) => {
                let seen = SeenKey {
                    identity,
                    stamp: None,
                    was_unreadable: false,
                };
                keys.insert(id.clone(), seen);
            }
            None => {
                keys.remove(id);
            }
        }
    }
}

impl KeyStore {
    /// Returns the keys that were accepted at the last call and are not now, or are others now, and were not
    /// changed through this store. The first call returns none. A key that cannot be read now is looked at
    /// again the next time, and nothing has changed when two or more keys are all missing at once. Costs a
    /// system call for each accepted key, and blocks on the disk.
    ///
    /// # Errors
    /// When a folder cannot be read; nothing has been noted.
    pub fn changed_by_hand(&self) -> Result<Vec<ChangedByHand>, KeyError> {
        let now = self.clock.wall();
        // Taken before the names are read: changes through this store note themselves under the same lock.
        let mut acting = self.acting();
        let accepted = self.accepted_ids()?;
        let rejected = self.ids().rejected.get(&self.rejected, now)?;
        let known = acting.seen.keys.as_ref().map_or(0, HashMap::len);
        let all_missing = accepted.is_empty() && known > 1;
        let is_news = all_missing && !acting.seen.all_missing;
        acting.seen.all_missing = all_missing;
        if is_news {
            tracing::error!(
                "all {known} accepted keys are missing at once, as when their folder is not mounted: nothing is \
                 revoked for it; `saline-key -D` deletes all keys"
            );
        }
        let before = acting.seen.keys.take();
        if all_missing {
            // Those that were moved to the rejected keys are revoked all the same.
            let (gone, kept): (HashMap<_, _>, HashMap<_, _>) = before
                .into_iter()
                .flatten()
                .partition(|(id, _)| rejected.binary_search(id).is_ok());
            acting.seen.keys = Some(kept);
            let changed = gone.into_keys();
            return Ok(changed
                .map(|id| ChangedByHand { id, identity: None })
                .collect());
        }
        let mut keys = HashMap::with_capacity(accepted.len());
        let mut changed = Vec::new();
        for id in accepted.iter() {
            if rejected.binary_search(id).is_ok() {
                continue;
            }
            let old = before.as_ref().and_then(|before| before.get(id)).copied();
            let seen = match self.look(id, old, now) {
                Ok(Some(seen)) => seen,
                // It may be half written: it is judged at the next look.
                Ok(None) => match old.filter(|old| !old.was_unreadable) {
                    Some(old) => SeenKey {
                        stamp: None,
                        was_unreadable: true,
                        ..old
                    },
                    None => continue,
                },
                Err(error) => {
                    tracing::warn!(%id, %error, "whether a key has changed cannot be seen");
                    let Some(old) = old else { continue };
                    SeenKey { stamp: None, ..old }
                }
            };
            if old.is_some_and(|old| old.identity != seen.identity) {
                changed.push(ChangedByHand {
                    id: id.clone(),
                    identity: Some(seen.identity),
                });
            }
            keys.insert(id.clone(), seen);
        }
        for id in before.into_iter().flatten().map(|(id, _)| id) {
            if !keys.contains_key(&id) {
                changed.push(ChangedByHand { id, identity: None });
            }
        }
        acting.seen.keys = Some(keys);
        Ok(changed)
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
