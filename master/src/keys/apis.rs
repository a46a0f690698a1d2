//! The keys of hosts of the HTTP API: `pki_dir/apis/<name>` has the accepted ones, `pki_dir/apis_pre/<name>` those that wait
//! for an operator. No option accepts one, and no token.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use saline_channel::KeyError;
use saline_messages::{ApiKeyAction, KeyEntry, KeyState, MinionId};
use saline_protocol::transport::{Clock, Source};

use super::folder::{Folder, Found};
use super::key_sources::{KeySources, Room};

/// The largest number of keys that wait. A fleet has a few APIs, and an operator looks through all that wait.
pub(crate) const MAX_PENDING_APIS: usize = 100;

/// The decision about the key that an API presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiVerdict {
    /// The key is accepted.
    Accepted,
    /// The key waits for an operator.
    Pending {
        /// Whether it did not wait before.
        is_new: bool,
        /// The API whose waiting key made room for it.
        displaced: Option<MinionId>,
    },
    /// Another key waits under the name.
    AnotherWaits,
    /// As many keys wait as there may be.
    Full,
}

/// The keys of APIs. One process uses them at a time, as the other keys.
#[derive(Debug)]
pub struct ApiKeys {
    clock: Clock,
    accepted: Folder,
    pending: Folder,
    /// The sources of the pending keys. Whoever changes files holds the lock.
    sources: Mutex<KeySources>,
}

impl ApiKeys {
    /// Opens the folders below `pki_dir`; creates them (0700) as needed.
    pub(super) fn open(pki_dir: &Path, clock: Clock) -> Result<Self, KeyError> {
        Ok(Self {
            clock,
            accepted: Folder::open(pki_dir.join("apis"))?,
            pending: Folder::open(pki_dir.join("apis_pre"))?,
            sources: Mutex::default(),
        })
    }

    /// Returns the accepted key of an API. Blocks on the disk.
    ///
    /// # Errors
    /// When the disk fails, or this process may open no more files.
    pub fn lookup(&self, name: &MinionId) -> Result<Option<[u8; 32]>, KeyError> {
        match self.accepted.read(name)? {
            Found::Key(key) => Ok(Some(key)),
            Found::Nothing | Found::NoKey => Ok(None),
        }
    }

    /// Decides about a key whose possession has been proven. One that is not accepted waits, also beside another one that is
    /// accepted under the name, and takes a place of its source; `most` bounds them, and so does `MAX_PENDING_APIS`. Blocks on
    /// the disk.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn authenticate(
        &self,
        name: &MinionId,
        presented: [u8; 32],
        source: Source,
        most: usize,
    ) -> Result<ApiVerdict, KeyError> {
        let mut sources = self.sources();
        if self.accepted.read(name)? == Found::Key(presented) {
            return Ok(ApiVerdict::Accepted);
        }
        match self.pending.read(name)? {
            Found::Key(known) if known == presented => {
                self.pending.touch(name, self.clock.wall())?;
                sources.take(name, source);
                return Ok(ApiVerdict::Pending {
                    is_new: false,
                    displaced: None,
                });
            }
            Found::Key(_) | Found::NoKey => return Ok(ApiVerdict::AnotherWaits),
            Found::Nothing => {}
        }
        let most = most.min(MAX_PENDING_APIS);
        let room = sources.make_room(&self.pending, self.clock.now(), source, most);
        let displaced = match room? {
            Room::Full => return Ok(ApiVerdict::Full),
            Room::Free => None,
            Room::Displaced(name) => Some(name),
        };
        self.pending.write_from(name, presented, source)?;
        sources.take(name, source);
        Ok(ApiVerdict::Pending {
            is_new: true,
            displaced,
        })
    }

    /// Returns every key, accepted ones first, by name. Also the files that hold no key, with
    /// [`NO_KEY`](KeyEntry::NO_KEY) for the key. Blocks on the disk.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn list(&self) -> Result<Vec<KeyEntry>, KeyError> {
        let mut entries = Vec::new();
        for (state, folder) in [
            (KeyState::Accepted, &self.accepted),
            (KeyState::Pending, &self.pending),
        ] {
            entries.extend(folder.entries(state)?);
        }
        Ok(entries)
    }

    /// Carries out the request of an operator, and adds the keys that were changed to `changed`, each in its new state or, when
    /// it was deleted, in its last one. A key that is no longer in the given state is left alone, and so is another key that has
    /// come into its place. Changes survive a power loss. Blocks on the disk.
    pub(super) fn act(
        &self,
        action: ApiKeyAction,
        keys: &[KeyEntry],
        changed: &mut Vec<KeyEntry>,
    ) -> Result<(), KeyError> {
        let mut sources = self.sources();
        // Counted again after the action, whatever its result.
        sources.list_again();
        let outcome = keys.iter().try_for_each(|key| {
            changed.extend(self.change(action, key)?);
            Ok(())
        });
        // Accepted keys first: after a power loss a key is in both folders rather than in none.
        let synced = self.accepted.sync().and_then(|()| self.pending.sync());
        outcome.and(synced)
    }

    fn change(&self, action: ApiKeyAction, shown: &KeyEntry) -> Result<Option<KeyEntry>, KeyError> {
        let (name, state) = (&shown.id, shown.state);
        let folder = match state {
            KeyState::Accepted => &self.accepted,
            KeyState::Pending => &self.pending,
            KeyState::Denied | KeyState::Rejected => return Ok(None),
        };
        let identity = match folder.read(name)? {
            Found::Key(identity) => identity,
            Found::NoKey => KeyEntry::NO_KEY,
            Found::Nothing => return Ok(None),
        };
        if identity != shown.identity {
            return Ok(None);
        }
        let state = match action {
            ApiKeyAction::Accept if state == KeyState::Accepted || !shown.holds_key() => {
                return Ok(None);
            }
            ApiKeyAction::Accept => {
                self.accepted.write(name, identity)?;
                KeyState::Accepted
            }
            ApiKeyAction::Delete => state,
        };
        folder.remove(name)?;
        Ok(Some(KeyEntry {
            id: name.clone(),
            state,
            identity,
        }))
    }

    /// Removes the pending keys that were presented last more than `kept` ago. Returns the names of their APIs. Blocks on the
    /// disk.
    ///
    /// # Errors
    /// When the disk fails; some may be removed.
    pub fn expire(&self, kept: Duration) -> Result<Vec<MinionId>, KeyError> {
        let now = self.clock.wall();
        let is_old = |at: SystemTime| now.duration_since(at).is_ok_and(|age| age > kept);
        let mut sources = self.sources();
        let mut expired = Vec::new();
        for name in self.pending.names()? {
            if self.pending.modified(&name)?.is_some_and(is_old) {
                self.pending.remove(&name)?;
                sources.list_again();
                expired.push(name);
            }
        }
        Ok(expired)
    }

    fn sources(&self) -> MutexGuard<'_, KeySources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
