//! The changes that operators make to keys.

use saline_channel::{KeyError, MasterIdentity};
use saline_messages::{KeyAction, KeyEntry, KeyRequest, KeyState, MinionId};

use super::folder::Found;
use super::{Acting, KeyOnDisk, KeyStore};

/// The change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// The minion.
    pub id: MinionId,
    /// The key.
    pub identity: [u8; 32],
    /// The state before.
    pub from: KeyState,
    /// The state after; none when the key was deleted.
    pub to: Option<KeyState>,
    /// The accepted key that it replaced, if that was another one.
    pub replaced: Option<[u8; 32]>,
}

impl KeyChange {
    /// Whether the sessions of this id must end and the group key change, because the key that they
    /// were accepted with is no longer accepted.
    pub fn ends_sessions(&self) -> bool {
        self.from == KeyState::Accepted
            || (self.from == KeyState::Pending && self.to == Some(KeyState::Rejected))
            || self.replaced.is_some()
    }

    /// Returns Salt's `act` of the event `salt/key`.
    pub fn act(&self) -> &'static str {
        match self.to {
            Some(KeyState::Accepted) => "accept",
            Some(_) => "reject",
            None => "delete",
        }
    }
}

/// The result of a request.
#[derive(Debug, Default)]
pub struct Applied {
    /// The reply: all keys for a list; for an action the changed keys in their new state, or in
    /// their last one if they were deleted.
    pub keys: Vec<KeyEntry>,
    /// The keys of APIs: all for a list, the changed ones for an action on them.
    pub apis: Vec<KeyEntry>,
    /// The changes of minions' keys that were made.
    pub changes: Vec<KeyChange>,
    /// The identity that the master's next start takes over, if there is one and the request was to list or to rotate.
    pub next_master: Option<[u8; 32]>,
    /// The error that ended the request early. The changes before it stand.
    pub error: Option<KeyError>,
}

impl KeyStore {
    /// Carries out the request of an operator. A key that is no longer in the given state is left alone, and so is
    /// another key that has come into its place. Changes survive a power loss. Blocks on the disk.
    pub fn apply(&self, request: &KeyRequest) -> Applied {
        let mut applied = Applied::default();
        applied.error = match request {
            KeyRequest::List => self.list().and_then(|keys| {
                applied.keys = keys;
                applied.apis = self.apis.list()?;
                applied.next_master = self.next_master();
                Ok(())
            }),
            KeyRequest::RotateIdentity => {
                let _turn = self.acting();
                MasterIdentity::prepare_next(&self.pki_dir)
                    .map(|next| applied.next_master = Some(next.0))
            }
            KeyRequest::Act { action, keys, .. } => self.act(*action, keys, &mut applied.changes),
            KeyRequest::ActOnApis { action, keys, .. } => {
                self.apis.act(*action, keys, &mut applied.apis)
            }
        }
        .err();
        if let Some(error) = &applied.error {
            tracing::error!(%error, "the key store failed");
        }
        let changed = applied.changes.iter().map(|change| KeyEntry {
            id: change.id.clone(),
            state: change.to.unwrap_or(change.from),
            identity: change.identity,
        });
        applied.keys.extend(changed);
        applied
    }

    /// Returns the identity that the master's next start takes over, if there is one. A file that cannot be read is logged, and
    /// does not fail the request.
    fn next_master(&self) -> Option<[u8; 32]> {
        match MasterIdentity::next(&self.pki_dir) {
            Ok(next) => next.map(|next| next.0),
            Err(error) => {
                tracing::warn!("the next start of the master will fail: {error}");
                None
            }
        }
    }

    fn act(
        &self,
        action: KeyAction,
        keys: &[KeyEntry],
        changes: &mut Vec<KeyChange>,
    ) -> Result<(), KeyError> {
        let mut acting = self.acting();
        // Counted again after the action, whatever its result.
        acting.pending.list_again();
        acting.denied.list_again();
        let outcome = keys.iter().try_for_each(|key| {
            changes.extend(self.change(&acting, action, key)?);
            Ok(())
        });
        for change in changes.iter() {
            match (change.from, change.to) {
                (_, Some(KeyState::Accepted)) => {
                    acting.seen.note(&change.id, Some(change.identity));
                }
                // One that is rejected may be another key than the accepted one.
                (KeyState::Accepted, _) => acting.seen.note(&change.id, None),
                (_, Some(KeyState::Rejected))
                    if self.key_on_disk(&change.id) == KeyOnDisk::NotAccepted =>
                {
                    acting.seen.note(&change.id, None);
                }
                _ => {}
            }
        }
        let synced = self.sync(changes);
        drop(acting);
        outcome.and(synced)
    }

    fn change(
        &self,
        acting: &Acting,
        action: KeyAction,
        shown: &KeyEntry,
    ) -> Result<Option<KeyChange>, KeyError> {
        let (from, id) = (shown.state, &shown.id);
        let is_missing = from == KeyState::Accepted && acting.seen.is_missing(id);
        let identity = match self.folder(from).read(id)? {
            Found::Key(identity) => identity,
            Found::NoKey if action == KeyAction::Delete => KeyEntry::NO_KEY,
            Found::Nothing if action == KeyAction::Delete && is_missing => KeyEntry::NO_KEY,
            Found::NoKey | Found::Nothing => return Ok(None),
        };
        if identity != shown.identity {
            return Ok(None);
        }
        let to = match action {
            KeyAction::Accept => Some(KeyState::Accepted),
            KeyAction::Reject => Some(KeyState::Rejected),
            KeyAction::Delete => None,
        };
        if to == Some(from) {
            return Ok(None);
        }
        let mut replaced = None;
        if let Some(to) = to {
            let target = self.folder(to);
            if to == KeyState::Accepted
                && let Found::Key(other) = target.read(id)?
                && other != identity
            {
                replaced = Some(other);
            }
            // Written before it is removed: after a crash in between, the key is in both folders
            // and not in none.
            target.write(id, identity)?;
        }
        self.folder(from).remove(id)?;
        Ok(Some(KeyChange {
            id: id.clone(),
            identity,
            from,
            to,
            replaced,
        }))
    }

    fn sync(&self, changes: &[KeyChange]) -> Result<(), KeyError> {
        for state in KeyState::ALL {
            if changes
                .iter()
                .any(|change| change.from == state || change.to == Some(state))
            {
                self.folder(state).sync()?;
            }
        }
        Ok(())
    }
}
