//! Decides about a presented key by Salt's table: what the store holds against what is presented.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use saline_channel::KeyError;
use saline_messages::{Admission, KeyState, MinionId, TokenName, TokenRefusal};
use saline_protocol::transport::Source;

use super::folder::Found;
use super::key_sources::Room;
use super::{Acting, KeyStore};
use crate::settings::{Decided, KeyPolicy};

/// Takes a use of the token that came with a key: returns the name of the token once the use is on the disk.
pub type TakeUse<'t> = &'t dyn Fn() -> Result<TokenName, TokenRefusal>;

/// The store's decision about a key, and what `salt/auth` reports of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The decision.
    pub admission: Admission<()>,
    /// Salt's `act` of the event `salt/auth`.
    pub act: &'static str,
    /// Salt's `result` of the event `salt/auth`.
    pub result: bool,
    /// Whether the store was changed.
    pub changed: bool,
    /// The option or the token by which the master accepted or rejected the key itself.
    pub rule: Option<Cow<'static, str>>,
    /// Whether the key was accepted by a token.
    pub is_by_token: bool,
    /// The reason why the token that came with the key did not let it in.
    pub token_refused: Option<TokenRefusal>,
    /// The pending or denied key that was removed to make room for this one: its state, and its minion.
    pub displaced: Option<(KeyState, MinionId)>,
}

impl Verdict {
    const fn new(admission: Admission<()>, act: &'static str, result: bool, changed: bool) -> Self {
        Self {
            admission,
            act,
            result,
            changed,
            rule: None,
            is_by_token: false,
            token_refused: None,
            displaced: None,
        }
    }

    const fn accept(changed: bool) -> Self {
        Self::new(Admission::Accepted(()), "accept", true, changed)
    }

    const fn pend(changed: bool) -> Self {
        Self::new(Admission::Pending(None), "pend", true, changed)
    }

    const fn deny(changed: bool) -> Self {
        Self::new(Admission::Denied, "denied", false, changed)
    }

    const REJECT: Self = Self::new(Admission::Rejected, "reject", false, false);

    /// A key that the master accepted itself, by this option.
    fn accept_by(rule: &'static str, changed: bool) -> Self {
        Self {
            rule: Some(Cow::Borrowed(rule)),
            ..Self::accept(changed)
        }
    }

    /// A key that the master accepted by this token.
    fn accept_by_token(name: TokenName) -> Self {
        Self {
            rule: Some(Cow::Owned(format!("token {name}"))),
            is_by_token: true,
            ..Self::accept(true)
        }
    }

    /// The same verdict about a key whose token was refused for this reason.
    fn with_token_refused(self, token_refused: Option<TokenRefusal>) -> Self {
        let admission = match self.admission {
            Admission::Pending(_) => Admission::Pending(token_refused),
            other => other,
        };
        Self {
            admission,
            token_refused,
            ..self
        }
    }

    const FULL: Self = Self::new(Admission::Full, "full", false, false);

    /// Salt's "anything else".
    const fn error(admission: Admission<()>) -> Self {
        Self::new(admission, "error", false, false)
    }
}

impl KeyStore {
    /// Decides about a key whose possession has been proven, and stores it as the table says; a key that has
    /// to wait takes a place of its source. Blocks on the disk when the key is new.
    ///
    /// When the file of this id is not a key, or the disk fails, the act is `error` and the key is
    /// not accepted.
    pub fn authenticate(
        &self,
        id: &MinionId,
        presented: [u8; 32],
        source: Source,
        policy: &KeyPolicy,
    ) -> Verdict {
        self.authenticate_with_token(id, presented, source, policy, None)
    }

    /// As [`authenticate`](Self::authenticate), for a key that came with a token. Where an operator would have to decide about
    /// the key, `take_use` takes a use of the token, and the key is accepted if there was one, also in the place of another
    /// key that waits under the id.
    pub fn authenticate_with_token(
        &self,
        id: &MinionId,
        presented: [u8; 32],
        source: Source,
        policy: &KeyPolicy,
        take_use: Option<TakeUse<'_>>,
    ) -> Verdict {
        let mut acting = self.acting();
        match self.judge(&mut acting, id, presented, source, policy, take_use) {
            Ok(verdict) => verdict,
            Err(error) => {
                tracing::error!(%id, %error, "the key store failed");
                Verdict::error(Admission::Full)
            }
        }
    }

    fn judge(
        &self,
        acting: &mut Acting,
        id: &MinionId,
        presented: [u8; 32],
        source: Source,
        policy: &KeyPolicy,
        take_use: Option<TakeUse<'_>>,
    ) -> Result<Verdict, KeyError> {
        if policy.open_mode {
            let known = self.accepted.read(id)? == Found::Key(presented);
            if !known {
                self.keep_accepted(acting, id, presented)?;
            }
            return Ok(Verdict::accept_by("open_mode", !known));
        }
        let (accepted, pending) = (self.accepted.read(id)?, self.pending.read(id)?);
        match self.rejected.read(id)? {
            Found::NoKey => return Ok(Verdict::error(Admission::Rejected)),
            Found::Nothing => {}
            // Beside another key that is accepted or waits it rejects itself alone. Otherwise it rejects the id, or its
            // holder would come back with a new key.
            rejected => {
                let is_other = |found| matches!(found, Found::Key(_)) && found != rejected;
                let is_it = rejected == Found::Key(presented);
                if is_it || !(is_other(accepted) || is_other(pending)) {
                    return Ok(Verdict::REJECT);
                }
            }
        }
        match accepted {
            Found::Key(known) if known == presented => return Ok(Verdict::accept(false)),
            Found::Key(_) => {
                return self.deny(acting, id, presented, source, policy.max_pending);
            }
            Found::NoKey => return Ok(Verdict::error(Admission::Denied)),
            Found::Nothing => {}
        }
        // It leaves no file: who presents two keys under one id would otherwise fill the disk.
        let is_denied = matches!(pending, Found::Key(known) if known != presented);
        if is_denied && take_use.is_none() {
            return Ok(Verdict::deny(false));
        }
        if pending == Found::NoKey {
            return Ok(Verdict::error(Admission::Denied));
        }
        let token = match policy.decide(id) {
            Decided::Reject(_) if is_denied => return Ok(Verdict::deny(false)),
            Decided::Reject(rule) => return self.reject(acting, id, presented, pending, rule),
            Decided::Accept(rule) if !is_denied => {
                self.keep_accepted(acting, id, presented)?;
                return Ok(Verdict::accept_by(rule, true));
            }
            Decided::Accept(_) | Decided::Nothing => take_use.map(|take_use| take_use()),
            Decided::OperatorAlone => take_use.map(|_| Err(TokenRefusal::Unavailable)),
        };
        let token_refused = match token {
            // The use is on the disk: if the acceptance does not get there, the token was used all the same.
            Some(Ok(name)) => {
                self.keep_accepted(acting, id, presented)?;
                return Ok(Verdict::accept_by_token(name));
            }
            Some(Err(refused)) => Some(refused),
            None => None,
        };
        if is_denied {
            return Ok(Verdict::deny(false).with_token_refused(token_refused));
        }
        match pending {
            Found::Key(_) | Found::NoKey => {
                self.pending.touch(id, self.clock.wall())?;
                acting.pending.take(id, source);
                return Ok(Verdict::pend(false).with_token_refused(token_refused));
            }
            Found::Nothing => {}
        }
        let (folder, now) = (&self.pending, self.clock.now());
        let room = acting
            .pending
            .make_room(folder, now, source, policy.max_pending);
        let displaced = match room? {
            Room::Full => return Ok(Verdict::FULL),
            Room::Free => None,
            Room::Displaced(id) => Some((KeyState::Pending, id)),
        };
        self.pending.write_from(id, presented, source)?;
        acting.pending.take(id, source);
        Ok(Verdict {
            displaced,
            ..Verdict::pend(true).with_token_refused(token_refused)
        })
    }

    /// Rejects a key that `autoreject_file` names. One that waited is kept as rejected; another leaves no file, or strangers
    /// could fill the disk with ids that the file names.
    fn reject(
        &self,
        acting: &mut Acting,
        id: &MinionId,
        presented: [u8; 32],
        pending: Found,
        rule: &'static str,
    ) -> Result<Verdict, KeyError> {
        let waited = matches!(pending, Found::Key(_));
        if waited {
            self.rejected.write(id, presented)?;
            self.pending.remove(id)?;
            acting.pending.release(id);
        }
        Ok(Verdict {
            changed: waited,
            rule: Some(Cow::Borrowed(rule)),
            ..Verdict::REJECT
        })
    }

    /// Stores a key as accepted and no longer as pending.
    fn keep_accepted(
        &self,
        acting: &mut Acting,
        id: &MinionId,
        key: [u8; 32],
    ) -> Result<(), KeyError> {
        self.accepted.write(id, key)?;
        self.pending.remove(id)?;
        acting.pending.release(id);
        acting.seen.note(id, Some(key));
        Ok(())
    }

    /// Puts aside a key that differs from the accepted one, if there is room for it among the `most` denied keys. The
    /// first denied key of an id stays, unless its source has denied keys of many ids: a stranger could otherwise keep
    /// the place of every machine that is to be reinstalled.
    fn deny(
        &self,
        acting: &mut Acting,
        id: &MinionId,
        presented: [u8; 32],
        source: Source,
        most: usize,
    ) -> Result<Verdict, KeyError> {
        let (folder, now) = (&self.denied, self.clock.now());
        let displaced = match folder.read(id)? {
            Found::Key(known) if known == presented => {
                folder.touch(id, self.clock.wall())?;
                return Ok(Verdict::deny(false));
            }
            Found::Key(_) if acting.denied.gives_way(folder, now, id, source)? => {
                Some((KeyState::Denied, id.clone()))
            }
            Found::Key(_) | Found::NoKey => return Ok(Verdict::deny(false)),
            Found::Nothing => match acting.denied.make_room(folder, now, source, most)? {
                Room::Full => return Ok(Verdict::deny(false)),
                Room::Free => None,
                Room::Displaced(id) => Some((KeyState::Denied, id)),
            },
        };
        folder.write_from(id, presented, source)?;
        acting.denied.take(id, source);
        Ok(Verdict {
            displaced,
            ..Verdict::deny(true)
        })
    }

    /// Removes the pending and the denied keys that were presented last more than `kept` ago. Returns their states and
    /// minions. Blocks on the disk.
    ///
    /// # Errors
    /// When the disk fails; some may be removed.
    pub fn expire(&self, kept: Duration) -> Result<Vec<(KeyState, MinionId)>, KeyError> {
        let now = self.clock.wall();
        let is_old = |at: SystemTime| now.duration_since(at).is_ok_and(|age| age > kept);
        let mut expired = Vec::new();
        for state in [KeyState::Pending, KeyState::Denied] {
            let folder = self.folder(state);
            for id in folder.names()? {
                if folder.modified(&id)?.is_some_and(is_old) {
                    // It may be presented just now: then it is there again with the next poll.
                    let mut acting = self.acting();
                    folder.remove(&id)?;
                    acting.pending.list_again();
                    acting.denied.list_again();
                    expired.push((state, id));
                }
            }
        }
        Ok(expired)
    }
}

#[cfg(test)]
mod tests;
