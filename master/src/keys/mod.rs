//! The key store: accepted, pending, rejected and denied keys in Salt's four folders, so that
//! operators can seed and copy them; and the keys of operators and of hosts of the HTTP API.
//!
//! The disk is the truth, also while a master runs. Every call blocks on it, so call it where
//! blocking is allowed.

mod access;
mod act;
mod apis;
mod audited;
mod authenticate;
mod copy;
mod external_changes;
mod folder;
mod folder_ids;
mod key_sources;
mod offline;
mod operators;
mod root_key;
#[cfg(test)]
mod tests;
mod tokens;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_channel::KeyError;
use saline_messages::{KeyEntry, KeyState, MinionId};
use saline_protocol::transport::Clock;

pub use access::{KeyAccess, KeysUnreadable};
pub use act::{Applied, KeyChange};
pub use apis::{ApiKeys, ApiVerdict};
pub(crate) use audited::{describe, named_minions};
pub use authenticate::Verdict;
pub use external_changes::{ExternalChange, KeyChanges};
pub use offline::offline;
pub use operators::OperatorStore;
pub use root_key::root_key;
pub use tokens::{TokenError, TokenStore};

use external_changes::SeenKeys;
use folder::{Folder, Found};
use folder_ids::FolderIds;
use key_sources::KeySources;

/// The key store. One process uses it at a time: the one that holds the
/// [`InstanceLock`](saline_daemon::InstanceLock).
#[derive(Debug)]
pub struct KeyStore {
    clock: Clock,
    pki_dir: PathBuf,
    accepted: Folder,
    denied: Folder,
    pending: Folder,
    rejected: Folder,
    /// Apart from `acting`, under whose lock files are synced: every publication needs the ids.
    ids: Mutex<Ids>,
    acting: Mutex<Acting>,
    apis: ApiKeys,
    /// Held while the keys are copied for a backup.
    copying: Mutex<()>,
}

/// The accepted key of an id, by what is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOnDisk {
    /// The key is accepted.
    Accepted([u8; 32]),
    /// No key is accepted.
    NotAccepted,
    /// There is a file for an accepted key, which cannot be read or holds no key: it may be half written.
    Unreadable,
}

/// The ids of the keys in two of the folders.
#[derive(Debug, Default)]
struct Ids {
    accepted: FolderIds,
    rejected: FolderIds,
}

/// The state of the only thread that may change files.
#[derive(Debug, Default)]
struct Acting {
    seen: SeenKeys,
    /// The sources of the pending keys.
    pending: KeySources,
    /// The sources of the denied keys.
    denied: KeySources,
}

impl KeyStore {
    /// Opens the store under `pki_dir`; creates its folders (0700) as needed.
    ///
    /// # Errors
    /// When a folder cannot be created, or belongs to another user.
    pub fn open(pki_dir: &Path, clock: Clock) -> Result<Self, KeyError> {
        saline_channel::key_file::create_private_folder(pki_dir)?;
        let folder = |state: KeyState| Folder::open(pki_dir.join(state.folder()));
        Ok(Self {
            clock,
            pki_dir: pki_dir.to_owned(),
            accepted: folder(KeyState::Accepted)?,
            denied: folder(KeyState::Denied)?,
            pending: folder(KeyState::Pending)?,
            rejected: folder(KeyState::Rejected)?,
            ids: Mutex::default(),
            acting: Mutex::default(),
            apis: ApiKeys::open(pki_dir, clock)?,
            copying: Mutex::default(),
        })
    }

    /// Returns the keys of APIs.
    pub fn apis(&self) -> &ApiKeys {
        &self.apis
    }

    /// Returns the state and the key of an id now. If it has keys in several states, accepted counts before pending,
    /// pending before rejected, and rejected before denied. A key that is rejected counts in no other state.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn lookup(&self, id: &MinionId) -> Result<Option<(KeyState, [u8; 32])>, KeyError> {
        use KeyState::{Accepted, Denied, Pending, Rejected};
        let rejected = self.rejected.read(id)?;
        // A damaged file in the folder of rejected keys rejects its id.
        if rejected == Found::NoKey {
            return Ok(None);
        }
        for state in [Accepted, Pending, Rejected, Denied] {
            let found = self.folder(state).read(id)?;
            if let Found::Key(key) = found
                && (state == Rejected || found != rejected)
            {
                return Ok(Some((state, key)));
            }
        }
        Ok(None)
    }

    /// Whether a file in the folder of rejected keys rejects this key of an id. One that holds another key does not,
    /// and one that holds no key rejects every key of the id.
    fn rejects(&self, id: &MinionId, key: &[u8; 32]) -> Result<bool, KeyError> {
        Ok(match self.rejected.read(id)? {
            Found::Nothing => false,
            Found::Key(rejected) => rejected == *key,
            Found::NoKey => true,
        })
    }

    /// Returns every key in the order of `saline-key -L`: by state, then by id. Also the files that hold no
    /// key, or that the master may not read, with [`NO_KEY`](KeyEntry::NO_KEY) for the key.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn list(&self) -> Result<Vec<KeyEntry>, KeyError> {
        let mut entries = Vec::new();
        for state in KeyState::ALL {
            entries.extend(self.folder(state).entries(state)?);
        }
        Ok(entries)
    }

    /// Returns the ids with an accepted key, sorted; targets are matched against them. Cheap while
    /// the folder does not change.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn accepted_ids(&self) -> Result<Arc<Vec<MinionId>>, KeyError> {
        let now = self.clock.wall();
        self.ids().accepted.get(&self.accepted, now)
    }

    /// Returns the number of keys in this state.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn count(&self, state: KeyState) -> Result<usize, KeyError> {
        match state {
            KeyState::Accepted => Ok(self.accepted_ids()?.len()),
            state => Ok(self.folder(state).names()?.len()),
        }
    }

    /// Returns what the disk says now about the accepted key of an id.
    pub fn key_on_disk(&self, id: &MinionId) -> KeyOnDisk {
        let look = || -> Result<KeyOnDisk, KeyError> {
            Ok(match self.accepted.read(id)? {
                Found::Key(key) if self.rejects(id, &key)? => KeyOnDisk::NotAccepted,
                Found::Key(key) => KeyOnDisk::Accepted(key),
                Found::NoKey if self.rejected.read(id)? != Found::NoKey => KeyOnDisk::Unreadable,
                Found::NoKey | Found::Nothing => KeyOnDisk::NotAccepted,
            })
        };
        look().unwrap_or_else(|error| {
            tracing::warn!("cannot read the key of minion {id}: {error}; it is refused until the file can be read");
            KeyOnDisk::Unreadable
        })
    }

    fn folder(&self, state: KeyState) -> &Folder {
        match state {
            KeyState::Accepted => &self.accepted,
            KeyState::Denied => &self.denied,
            KeyState::Pending => &self.pending,
            KeyState::Rejected => &self.rejected,
        }
    }

    fn ids(&self) -> MutexGuard<'_, Ids> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acting(&self) -> MutexGuard<'_, Acting> {
        self.acting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
