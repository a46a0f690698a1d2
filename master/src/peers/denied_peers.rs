//! The addresses from which denied keys were presented: operators look for the second machine of an id.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_messages::MinionId;
use saline_protocol::transport::Instant;

/// The largest number of ids whose denied peers are remembered.
const MAX_IDS: usize = 1000;

/// The key that was presented last under each id, where it came from, and when.
type Presented = HashMap<MinionId, ([u8; 32], SocketAddr, Instant)>;

/// The last addresses from which denied keys were presented. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct DeniedPeers(Arc<Mutex<Presented>>);

impl DeniedPeers {
    /// Notes that a denied key was presented from `address`. Further ids than can be remembered are left out.
    pub fn note(&self, id: &MinionId, identity: [u8; 32], address: SocketAddr, now: Instant) {
        let mut peers = self.lock();
        if peers.len() < MAX_IDS || peers.contains_key(id) {
            peers.insert(id.clone(), (identity, address, now));
        }
    }

    /// Returns the address from which this key was presented last.
    pub fn address(&self, id: &MinionId, identity: [u8; 32]) -> Option<SocketAddr> {
        let (known, address, _) = self.last(id)?;
        (known == identity).then_some(address)
    }

    /// Returns the key that was presented last under this id, from where, and when.
    pub fn last(&self, id: &MinionId) -> Option<([u8; 32], SocketAddr, Instant)> {
        self.lock().get(id).copied()
    }

    /// Forgets the peers of an id, whose keys an operator has decided about.
    pub fn forget(&self, id: &MinionId) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, Presented> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_protocol::transport::Clock;

    #[test]
    fn the_last_address_of_a_denied_key_is_known() {
        let peers = DeniedPeers::default();
        let id = |name: &str| MinionId::parse(name).unwrap();
        let at = |last| SocketAddr::from(([192, 0, 2, last], 1));
        peers.note(&id("a"), [1; 32], at(1), Clock.now());
        peers.note(&id("a"), [1; 32], at(2), Clock.now());
        assert_eq!(peers.address(&id("a"), [1; 32]), Some(at(2)));
        assert_eq!(peers.address(&id("a"), [2; 32]), None);
        peers.forget(&id("a"));
        assert_eq!(peers.address(&id("a"), [1; 32]), None);
    }

    #[test]
    fn strangers_do_not_fill_the_memory() {
        let peers = DeniedPeers::default();
        for number in 0..2 * MAX_IDS {
            let id = MinionId::parse(&format!("m{number}")).unwrap();
            let address = SocketAddr::from(([192, 0, 2, 1], 1));
            peers.note(&id, [1; 32], address, Clock.now());
        }
        assert_eq!(peers.lock().len(), MAX_IDS);
    }
}
