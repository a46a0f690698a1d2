//! Where and when the minions behind keys were seen last.

use std::collections::HashMap;

use saline_channel::PublicIdentity;
use saline_messages::{LastSeen, MinionId, PlannedEnd};
use saline_protocol::transport::Peer;

use super::session::{Session, SessionState, lock};
use super::table::{Entry, Sessions, Table};

/// How long it is remembered where a minion was heard whose key is not accepted any more: it may be accepted again.
const REVOKED_FOR: u64 = 24 * 3_600_000;

/// How long a minion whose machine was planned to reboot or shut down is shown as that, in milliseconds.
const PLANNED_FOR: u64 = 15 * 60_000;

/// A minion whose session was forgotten, as it was heard last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departed {
    identity: PublicIdentity,
    peer: Peer,
    /// When that was, by the table's time.
    heard: u64,
    /// Whether its key was accepted until then, and was not revoked since.
    is_accepted: bool,
    /// What its machine was planned to do then.
    planned: Option<PlannedEnd>,
}

impl Departed {
    pub(super) fn of(entry: &Entry) -> Self {
        let session = &entry.session;
        Self {
            identity: session.identity,
            peer: session.peer,
            heard: entry.heard,
            is_accepted: true,
            planned: None,
        }
    }
}

impl Table {
    /// Notes that the departed minion with this id is not accepted any more, unless it had this key.
    pub(super) fn revoke_departed(&mut self, id: &MinionId, accepted: Option<PublicIdentity>) {
        if let Some(departed) = self.departed.get_mut(id)
            && Some(departed.identity) != accepted
        {
            departed.is_accepted = false;
        }
    }

    /// Returns the minions whose sessions were forgotten and whose keys are accepted, each with the time of its last request.
    pub(super) fn heard_departed(&self) -> impl Iterator<Item = (&MinionId, u64)> {
        let accepted = self
            .departed
            .iter()
            .filter(|(_, departed)| departed.is_accepted);
        accepted.map(|(id, departed)| (id, departed.heard))
    }

    /// Forgets the departed minions whose keys were revoked and that were heard a day before `now`.
    pub(super) fn forget_revoked(&mut self, now: u64) {
        self.departed.retain(|_, departed| {
            departed.is_accepted || now.saturating_sub(departed.heard) <= REVOKED_FOR
        });
    }
}

impl Sessions {
    /// Removes the session of a minion that leaves, because of a plan for its machine if there is one.
    pub fn leave(&self, session: &Session, planned: Option<PlannedEnd>) {
        self.remove(session);
        let Some(id) = session.principal.minion() else {
            return;
        };
        if let Some(departed) = lock(&self.table).departed.get_mut(id)
            && departed.identity == session.identity
        {
            departed.planned = planned;
        }
    }

    /// Returns what the machine of this minion was planned to do when the minion left, if it may still be at that: the minion
    /// has not come back, and left at most a quarter of an hour ago.
    pub fn planned_end(&self, id: &MinionId) -> Option<PlannedEnd> {
        let now = self.time.now();
        let table = lock(&self.table);
        let departed = table.departed.get(id)?;
        let is_recent = now.saturating_sub(departed.heard) <= PLANNED_FOR;
        departed
            .planned
            .filter(|_| departed.is_accepted && is_recent)
    }

    /// Returns where and when each key that made sessions under this id was seen last. Sessions that
    /// may have been begun by a replay do not count.
    pub fn last_seen(&self, id: &MinionId) -> Vec<LastSeen> {
        let now = self.time.now();
        let table = lock(&self.table);
        let mut latest: HashMap<PublicIdentity, LastSeen> = HashMap::new();
        let departed = table.departed.get(id);
        let departed = departed.map(|departed| (departed.is_accepted, *departed));
        let own = table.by_minion.get(id).into_iter().flatten();
        let heard = own.filter_map(|(_, session)| {
            let entry = table.all.get(session)?;
            let is_accepted = match entry.session.state() {
                SessionState::Accepted | SessionState::Replaced => true,
                SessionState::Unaccepted => false,
                SessionState::KeyGone => return None,
            };
            entry.proven.then(|| (is_accepted, Departed::of(entry)))
        });
        for (is_accepted, heard) in heard.chain(departed) {
            let seen = LastSeen {
                minion: id.clone(),
                identity: heard.identity.0,
                is_accepted,
                address: Some(heard.peer.place()),
                heard_ms: Some(now.saturating_sub(heard.heard)),
            };
            let known = latest.entry(heard.identity).or_insert_with(|| seen.clone());
            if seen.heard_ms < known.heard_ms {
                *known = seen;
            }
        }
        let mut latest: Vec<LastSeen> = latest.into_values().collect();
        latest.sort_by_key(|seen| (!seen.is_accepted, seen.heard_ms));
        latest
    }
}
