//! What operators do with keys.

use saline_protocol::channel::KeyError;
use saline_protocol::message::{KeyAction, KeyEntry, KeyRequest, KeyState, MinionId};

use super::KeyStore;
use super::folder::Found;

/// What happened to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// Whose.
    pub id: MinionId,
    /// Which.
    pub identity: [u8; 32],
    /// Where it was.
    pub from: KeyState,
    /// Where it is now; none when it was deleted.
    pub to: Option<KeyState>,
    /// The accepted key in whose place it came, if that is another.
    pub replaced: Option<[u8; 32]>,
}

impl KeyChange {
    /// Whether a session that this id may have must end, and the group key be another: the key
    /// that it was accepted with no longer lets it in.
    pub fn ends_sessions(&self) -> bool {
        self.from == KeyState::Accepted
            || self.to == Some(KeyState::Rejected)
            || self.replaced.is_some()
    }

    /// Salt's `act` of the event `salt/key`.
    pub fn act(&self) -> &'static str {
        match self.to {
            Some(KeyState::Accepted) => "accept",
            Some(_) => "reject",
            None => "delete",
        }
    }
}

/// What came of a request.
#[derive(Debug, Default)]
pub struct Applied {
    /// What is answered: to a list all keys; to an act those that were changed, in their new
    /// state, and in their last one when they were deleted.
    pub keys: Vec<KeyEntry>,
    /// What was changed.
    pub changes: Vec<KeyChange>,
    /// Why not everything was done. What `changes` names was.
    pub error: Option<KeyError>,
}

impl KeyStore {
    /// Does what an operator asks. Keys that are no longer where the operator saw them are left
    /// alone. What was changed survives a loss of power. Blocks on the disk.
    pub fn apply(&self, request: &KeyRequest) -> Applied {
        let mut applied = Applied::default();
        applied.error = match request {
            KeyRequest::List => self.list().map(|keys| applied.keys = keys),
            KeyRequest::Act { action, keys, .. } => self.act(*action, keys, &mut applied.changes),
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

    fn act(
        &self,
        action: KeyAction,
        keys: &[(KeyState, MinionId)],
        changes: &mut Vec<KeyChange>,
    ) -> Result<(), KeyError> {
        let mut acting = self.acting();
        // Whatever happens to them, they are counted again.
        acting.pending = None;
        let outcome = keys.iter().try_for_each(|(from, id)| {
            changes.extend(self.change(action, *from, id)?);
            Ok(())
        });
        let synced = self.sync(changes);
        drop(acting);
        outcome.and(synced)
    }

    fn change(
        &self,
        action: KeyAction,
        from: KeyState,
        id: &MinionId,
    ) -> Result<Option<KeyChange>, KeyError> {
        let Found::Key(identity) = self.folder(from).read(id)? else {
            return Ok(None);
        };
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
            // It is never in no folder: after a crash between the two it is in both.
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
