//! Where the holders of keys were, and when they were heard last.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use saline_channel::PublicIdentity;
use saline_messages::MinionId;

use super::session::{Session, SessionState, lock};
use super::table::{Sessions, Table};

/// The holder of a key, as it was heard last in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeardHolder {
    /// The identity that the key is.
    pub identity: PublicIdentity,
    /// Whether the key was accepted then.
    pub is_accepted: bool,
    /// The address of its session, where the transport tells it.
    pub address: Option<IpAddr>,
    /// How long ago that was.
    pub ago: Duration,
}

/// A minion whose session was forgotten, as it was heard last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departed {
    identity: PublicIdentity,
    address: Option<IpAddr>,
    /// When that was, by the table's time.
    heard: u64,
}

impl Departed {
    pub(super) fn of(session: &Session) -> Self {
        Self {
            identity: session.identity,
            address: session.address.map(|address| address.ip()),
            heard: session.heard.load(Ordering::Relaxed),
        }
    }
}

impl Table {
    /// Forgets the departed minion with this id, unless it had this key.
    pub(super) fn forget_departed(&mut self, id: &MinionId, accepted: Option<PublicIdentity>) {
        if self
            .departed
            .get(id)
            .is_some_and(|departed| Some(departed.identity) != accepted)
        {
            self.departed.remove(id);
        }
    }
}

impl Sessions {
    /// Returns the holders of keys that made sessions under this id, each as it was heard last. Sessions that
    /// may have been begun by a replay do not count.
    pub fn key_holders(&self, id: &MinionId) -> Vec<HeardHolder> {
        let now = self.time.now();
        let table = lock(&self.table);
        let mut latest: HashMap<PublicIdentity, HeardHolder> = HashMap::new();
        let departed = table.departed.get(id).map(|departed| (true, *departed));
        let own = table.by_minion.get(id).into_iter().flatten();
        let heard = own.filter_map(|(_, session)| {
            let session = table.all.get(session)?;
            let (is_proven, state) = {
                let inner = lock(&session.inner);
                (inner.proven, inner.state)
            };
            let is_accepted = match state {
                SessionState::Accepted | SessionState::Replaced => true,
                SessionState::Unaccepted => false,
                SessionState::KeyGone => return None,
            };
            is_proven.then(|| (is_accepted, Departed::of(session)))
        });
        for (is_accepted, heard) in heard.chain(departed) {
            let heard_holder = HeardHolder {
                identity: heard.identity,
                is_accepted,
                address: heard.address,
                ago: Duration::from_millis(now.saturating_sub(heard.heard)),
            };
            let known = latest.entry(heard.identity).or_insert(heard_holder);
            if heard_holder.ago < known.ago {
                *known = heard_holder;
            }
        }
        let mut latest: Vec<HeardHolder> = latest.into_values().collect();
        latest.sort_by_key(|heard_holder| (!heard_holder.is_accepted, heard_holder.ago));
        latest
    }
}
