//! Who comes with a key: Salt's table of what the store holds and what is presented.

use std::time::Duration;

use saline_protocol::channel::KeyError;
use saline_protocol::message::MinionId;

use super::folder::Found;
use super::{Acting, KeyStore};

/// How long the count of waiting keys is relied on. What the master adds is counted at once; what
/// an operator copies or deletes by hand, after this.
const COUNT_KEPT: Duration = Duration::from_secs(1);

/// What the configuration says about unknown keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Accept every key of an id that is not known, and those that wait when they come again.
    pub auto_accept: bool,
    /// Accept every key of every id. For emergencies.
    pub open_mode: bool,
    /// Keys that may wait.
    pub max_pending: usize,
}

/// What one who presents a key is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyAnswer {
    /// Come in.
    Accepted,
    /// Wait until an operator has accepted the key.
    Pending,
    /// The key is rejected.
    Rejected,
    /// Another key is known under this id.
    Denied,
    /// No more keys can be taken now.
    Full,
}

/// What the store says to a key, and what there is to tell of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// What is answered.
    pub answer: KeyAnswer,
    /// Salt's `act` of the event `salt/auth`.
    pub act: &'static str,
    /// Salt's `result` of the event `salt/auth`.
    pub result: bool,
    /// Whether the store was changed.
    pub changed: bool,
}

impl Verdict {
    const fn new(answer: KeyAnswer, act: &'static str, result: bool, changed: bool) -> Self {
        Self {
            answer,
            act,
            result,
            changed,
        }
    }

    const fn accept(changed: bool) -> Self {
        Self::new(KeyAnswer::Accepted, "accept", true, changed)
    }

    const fn pend(changed: bool) -> Self {
        Self::new(KeyAnswer::Pending, "pend", true, changed)
    }

    const REJECT: Self = Self::new(KeyAnswer::Rejected, "reject", false, false);
    const FULL: Self = Self::new(KeyAnswer::Full, "full", false, false);

    /// Salt's "anything else".
    const fn error(answer: KeyAnswer) -> Self {
        Self::new(answer, "error", false, false)
    }
}

impl KeyStore {
    /// Judges a key that somebody has proven to hold, and keeps it where the table says so.
    /// Blocks on the disk when a key is new.
    ///
    /// When the store holds under this id what is no key, or the disk fails, the act is `error`
    /// and nobody is let in.
    pub fn authenticate(&self, id: &MinionId, presented: [u8; 32], policy: Policy) -> Verdict {
        let mut acting = self.acting();
        match self.judge(&mut acting, id, presented, policy) {
            Ok(verdict) => verdict,
            Err(error) => {
                tracing::error!(%id, %error, "the key store failed");
                Verdict::error(KeyAnswer::Full)
            }
        }
    }

    fn judge(
        &self,
        acting: &mut Acting,
        id: &MinionId,
        presented: [u8; 32],
        policy: Policy,
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
            Found::NoKey => return Ok(Verdict::error(KeyAnswer::Rejected)),
            Found::Nothing => {}
        }
        match self.accepted.read(id)? {
            Found::Key(known) if known == presented => return Ok(Verdict::accept(false)),
            Found::Key(_) => return self.deny(id, presented),
            Found::NoKey => return Ok(Verdict::error(KeyAnswer::Denied)),
            Found::Nothing => {}
        }
        match self.pending.read(id)? {
            Found::Key(known) if known != presented => return self.deny(id, presented),
            Found::NoKey => return Ok(Verdict::error(KeyAnswer::Denied)),
            Found::Key(_) | Found::Nothing if policy.auto_accept => {
                self.keep_accepted(acting, id, presented)?;
                return Ok(Verdict::accept(true));
            }
            Found::Key(_) => return Ok(Verdict::pend(false)),
            Found::Nothing => {}
        }
        if self.pending_about(acting)? >= policy.max_pending {
            return Ok(Verdict::FULL);
        }
        self.pending.write(id, presented)?;
        if let Some((count, _)) = &mut acting.pending {
            *count += 1;
        }
        Ok(Verdict::pend(true))
    }

    /// Accepts a key, which then waits no more.
    fn keep_accepted(
        &self,
        acting: &mut Acting,
        id: &MinionId,
        key: [u8; 32],
    ) -> Result<(), KeyError> {
        self.accepted.write(id, key)?;
        self.pending.remove(id)?;
        acting.pending = None;
        Ok(())
    }

    /// Puts a key aside that is not the known one. The first stays: an operator who has compared a
    /// fingerprint accepts the key that it was of, and not one that came in between.
    fn deny(&self, id: &MinionId, presented: [u8; 32]) -> Result<Verdict, KeyError> {
        let first = self.denied.read(id)? == Found::Nothing;
        if first {
            self.denied.write(id, presented)?;
        }
        Ok(Verdict::new(KeyAnswer::Denied, "denied", false, first))
    }

    /// How many keys wait, without reading the folder each time: it can hold ten thousand, and
    /// strangers choose when it is asked.
    fn pending_about(&self, acting: &mut Acting) -> Result<usize, KeyError> {
        let now = self.clock.now();
        if let Some((count, counted)) = acting.pending
            && now.saturating_duration_since(counted) < COUNT_KEPT
        {
            return Ok(count);
        }
        let count = self.pending_count()?;
        acting.pending = Some((count, now));
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
