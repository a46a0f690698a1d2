//! Decides about a presented key by Salt's table: what the store holds against what is presented.

use std::time::{Duration, SystemTime};

use saline_channel::KeyError;
use saline_messages::{Admission, MinionId};
use saline_protocol::transport::Source;

use super::folder::Found;
use super::pending_sources::Room;
use super::{Acting, KeyStore};
use crate::settings::KeyPolicy;

/// How often it is noted that a pending key is still presented.
const TOUCHED: Duration = Duration::from_secs(3_600);

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
    /// The minion whose pending key was removed to make room for this one.
    pub displaced: Option<MinionId>,
}

impl Verdict {
    const fn new(admission: Admission<()>, act: &'static str, result: bool, changed: bool) -> Self {
        Self {
            admission,
            act,
            result,
            changed,
            displaced: None,
        }
    }

    const fn accept(changed: bool) -> Self {
        Self::new(Admission::Accepted(()), "accept", true, changed)
    }

    const fn pend(changed: bool) -> Self {
        Self::new(Admission::Pending, "pend", true, changed)
    }

    const REJECT: Self = Self::new(Admission::Rejected, "reject", false, false);
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
        policy: KeyPolicy,
    ) -> Verdict {
        let mut acting = self.acting();
        match self.judge(&mut acting, id, presented, source, policy) {
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
        policy: KeyPolicy,
    ) -> Result<Verdict, KeyError> {
        if policy.open_mode {
            let known = self.accepted.read(id)? == Found::Key(presented);
            if !known {
                self.keep_accepted(acting, id, presented)?;
            }
            return Ok(Verdict::accept(!known));
        }
        match self.rejected.read(id)? {
            Found::Key(_) => return Ok(Verdict::REJECT),
            Found::NoKey => return Ok(Verdict::error(Admission::Rejected)),
            Found::Nothing => {}
        }
        match self.accepted.read(id)? {
            Found::Key(known) if known == presented => return Ok(Verdict::accept(false)),
            Found::Key(_) => return self.deny(id, presented),
            Found::NoKey => return Ok(Verdict::error(Admission::Denied)),
            Found::Nothing => {}
        }
        match self.pending.read(id)? {
            Found::Key(known) if known != presented => return self.deny(id, presented),
            Found::NoKey => return Ok(Verdict::error(Admission::Denied)),
            Found::Key(_) | Found::Nothing if policy.auto_accept => {
                self.keep_accepted(acting, id, presented)?;
                return Ok(Verdict::accept(true));
            }
            Found::Key(_) => {
                self.pending.touch(id, self.clock.wall(), TOUCHED)?;
                acting.pending_sources.take(id.clone(), source);
                return Ok(Verdict::pend(false));
            }
            Found::Nothing => {}
        }
        let displaced = match self.make_room(acting, source, policy.max_pending)? {
            Room::Full => return Ok(Verdict::FULL),
            Room::Free => None,
            Room::Displaced(id) => Some(id),
        };
        self.pending.write_from(id, presented, source)?;
        acting.pending_sources.take(id.clone(), source);
        Ok(Verdict {
            displaced,
            ..Verdict::pend(true)
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
        acting.pending_sources.release(id);
        acting.seen.note(id, Some(key));
        Ok(())
    }

    /// Puts aside a key that differs from the known one. The first denied key stays: an operator who
    /// has compared a fingerprint then accepts that key, and not one that was presented later.
    fn deny(&self, id: &MinionId, presented: [u8; 32]) -> Result<Verdict, KeyError> {
        let first = self.denied.read(id)? == Found::Nothing;
        if first {
            self.denied.write(id, presented)?;
        }
        Ok(Verdict::new(Admission::Denied, "denied", false, first))
    }

    /// Removes the pending keys that were presented last more than `kept` ago. Returns their minions. Blocks on
    /// the disk.
    ///
    /// # Errors
    /// When the disk fails; some may be removed.
    pub fn expire_pending(&self, kept: Duration) -> Result<Vec<MinionId>, KeyError> {
        let now = self.clock.wall();
        let mut expired = Vec::new();
        for id in self.pending.names()? {
            let presented = self.pending.modified(&id)?;
            let is_old = |at: SystemTime| now.duration_since(at).is_ok_and(|age| age > kept);
            if presented.is_some_and(is_old) {
                // It may be presented just now: then it is pending again with the next poll.
                let mut acting = self.acting();
                self.pending.remove(&id)?;
                acting.pending_sources.release(&id);
                expired.push(id);
            }
        }
        Ok(expired)
    }
}

#[cfg(test)]
mod tests;
