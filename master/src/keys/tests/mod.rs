//! What the key store promises, from outside.

mod acts;
mod disk;
mod external_changes;

use std::path::PathBuf;

use saline_channel::PublicIdentity;
use saline_messages::{KeyAction, KeyEntry, KeyRequest, KeyState, MinionId, RequestId};
use saline_protocol::transport::Clock;
use tempfile::TempDir;

use super::{Applied, KeyStore};

/// A folder of keys that goes with it.
pub(super) struct Place {
    pub(super) folder: TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn pki(&self) -> PathBuf {
        self.folder.path().join("pki")
    }

    pub(super) fn open(&self) -> KeyStore {
        KeyStore::open(&self.pki(), Clock).unwrap()
    }

    pub(super) fn file(&self, state: KeyState, name: &str) -> PathBuf {
        self.pki().join(state.folder()).join(name)
    }

    /// Copies a key there as an operator does.
    pub(super) fn seed(&self, state: KeyState, name: &str, number: u8) {
        let pem = PublicIdentity(key(number)).to_pem();
        std::fs::write(self.file(state, name), pem).unwrap();
    }
}

pub(super) fn id(text: &str) -> MinionId {
    MinionId::parse(text).unwrap()
}

pub(super) fn key(number: u8) -> [u8; 32] {
    [number; 32]
}

/// Returns a request about keys as they are listed now. One that is not there is asked for as a file without a key.
pub(super) fn act(
    store: &KeyStore,
    action: KeyAction,
    keys: Vec<(KeyState, MinionId)>,
) -> KeyRequest {
    let listed = store.list().unwrap();
    let shown = |(state, id): (KeyState, MinionId)| {
        let found = listed.iter().find(|key| key.state == state && key.id == id);
        found.cloned().unwrap_or(KeyEntry {
            id,
            state,
            identity: KeyEntry::NO_KEY,
        })
    };
    let keys = keys.into_iter().map(shown).collect();
    KeyRequest::Act {
        request_id: RequestId::default(),
        action,
        keys,
    }
}

/// What is where, by state and id.
fn listing(store: &KeyStore) -> Vec<(KeyState, String, u8)> {
    store
        .list()
        .unwrap()
        .into_iter()
        .map(|entry| (entry.state, entry.id.to_string(), entry.identity[0]))
        .collect()
}
