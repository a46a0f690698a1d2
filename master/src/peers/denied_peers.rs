//! The peers that presented denied keys: operators look for the second machine of an id. Sources share the
//! places, so that one of them does not fill the memory with ids that nobody has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_messages::MinionId;
use saline_protocol::transport::{Instant, NoPlace, Peer, SourcePlaces};

/// The largest number of ids whose denied peers are remembered.
const MAX_IDS: usize = 1000;

/// The last peers that presented denied keys. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct DeniedPeers(Arc<Mutex<Presented>>);

#[derive(Debug, Default)]
struct Presented {
    /// The key that was presented last under each id, by whom, and when.
    by_id: HashMap<MinionId, ([u8; 32], Peer, Instant)>,
    places: SourcePlaces<MinionId>,
}

impl DeniedPeers {
    /// Notes that `peer` presented a denied key, unless its source has too many ids here. Returns whether
    /// it is noted and was not the last one of its id.
    pub fn note(&self, id: &MinionId, identity: [u8; 32], peer: Peer, now: Instant) -> bool {
        let mut peers = self.lock();
        match peers.places.take_one_of(MAX_IDS, id.clone(), peer.source) {
            Err(NoPlace) => return false,
            Ok(Some(evicted)) => drop(peers.by_id.remove(&evicted)),
            Ok(None) => {}
        }
        let before = peers.by_id.insert(id.clone(), (identity, peer, now));
        before.is_none_or(|(known, _, _)| known != identity)
    }

    /// Returns the peer that presented this key last.
    pub fn peer(&self, id: &MinionId, identity: [u8; 32]) -> Option<Peer> {
        let (known, peer, _) = self.last(id)?;
        (known == identity).then_some(peer)
    }

    /// Returns the key that was presented last under this id, by whom, and when.
    pub fn last(&self, id: &MinionId) -> Option<([u8; 32], Peer, Instant)> {
        self.lock().by_id.get(id).copied()
    }

    /// Forgets the peers of an id, whose keys an operator has decided about.
    pub fn forget(&self, id: &MinionId) {
        let mut peers = self.lock();
        peers.by_id.remove(id);
        peers.places.release(id);
    }

    fn lock(&self) -> MutexGuard<'_, Presented> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_protocol::transport::Clock;

    fn id(name: &str) -> MinionId {
        MinionId::parse(name).unwrap()
    }

    fn at(last: u8) -> Peer {
        Peer::at(7, ([192, 0, 2, last], 1).into())
    }

    #[test]
    fn the_last_peer_with_a_denied_key_is_known() {
        let peers = DeniedPeers::default();
        assert!(peers.note(&id("a"), [1; 32], at(1), Clock.now()));
        assert!(!peers.note(&id("a"), [1; 32], at(2), Clock.now()));
        assert_eq!(peers.peer(&id("a"), [1; 32]), Some(at(2)));
        assert_eq!(peers.peer(&id("a"), [2; 32]), None);
        peers.forget(&id("a"));
        assert_eq!(peers.peer(&id("a"), [1; 32]), None);
    }

    #[test]
    fn strangers_fill_neither_the_memory_nor_the_places_of_others() {
        let peers = DeniedPeers::default();
        for number in 0..2 * MAX_IDS {
            peers.note(&id(&format!("m{number}")), [1; 32], at(1), Clock.now());
        }
        assert_eq!(peers.lock().by_id.len(), MAX_IDS);
        assert!(peers.note(&id("web1"), [2; 32], at(2), Clock.now()));
        assert_eq!(peers.peer(&id("web1"), [2; 32]), Some(at(2)));
        assert_eq!(peers.lock().by_id.len(), MAX_IDS);
    }
}
