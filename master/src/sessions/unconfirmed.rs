//! The number of sessions that have not sent a first record: the handshake that made one could be a replay.

use std::collections::HashMap;

use saline_channel::PublicIdentity;

/// The largest number of half-open handshakes of a listener, and of unconfirmed sessions of each origin.
pub const MAX_UNCONFIRMED: usize = 1024;

/// The largest number of unconfirmed sessions of one key over the network, so that few keys do not take the places
/// of all others. On the local endpoint all command lines have one key.
const UNPROVEN_OF_KEY: usize = 8;

/// The kind of listener over which the peer of a session came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The local endpoint.
    Local,
    /// Another listener.
    Network,
}

/// Counts unconfirmed sessions. The local command line has places of its own.
#[derive(Debug, Default)]
pub(super) struct UnconfirmedCount {
    local: usize,
    network: usize,
    by_key: HashMap<PublicIdentity, usize>,
}

impl UnconfirmedCount {
    fn of(&mut self, origin: Origin) -> &mut usize {
        match origin {
            Origin::Local => &mut self.local,
            Origin::Network => &mut self.network,
        }
    }

    /// Whether there is room for one more session of this origin.
    pub(super) fn has_room(&mut self, origin: Origin) -> bool {
        *self.of(origin) < MAX_UNCONFIRMED
    }

    /// Counts one more session. Returns false, and counts nothing, when there are too many of its origin
    /// or of its key.
    pub(super) fn add(&mut self, origin: Origin, key: PublicIdentity) -> bool {
        let of_key = self.by_key.get(&key).copied().unwrap_or(0);
        let is_greedy = origin == Origin::Network && of_key >= UNPROVEN_OF_KEY;
        if *self.of(origin) >= MAX_UNCONFIRMED || is_greedy {
            return false;
        }
        *self.of(origin) += 1;
        self.by_key.insert(key, of_key + 1);
        true
    }

    /// Counts one session less: it has proven itself, or is gone.
    pub(super) fn remove(&mut self, origin: Origin, key: PublicIdentity) {
        let of_origin = self.of(origin);
        *of_origin = of_origin.saturating_sub(1);
        if let Some(of_key) = self.by_key.get_mut(&key) {
            *of_key -= 1;
            if *of_key == 0 {
                self.by_key.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_origin_and_no_key_takes_the_places_of_others() {
        let mut count = UnconfirmedCount::default();
        let key = |number: usize| {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&number.to_be_bytes());
            PublicIdentity(key)
        };
        let one = (0..1_000).filter(|_| count.add(Origin::Network, key(0)));
        assert_eq!(one.count(), UNPROVEN_OF_KEY);
        let all = (1..5_000).filter(|number| count.add(Origin::Network, key(*number)));
        assert_eq!(all.count(), MAX_UNCONFIRMED - UNPROVEN_OF_KEY);
        assert!(!count.has_room(Origin::Network));
        assert!(count.has_room(Origin::Local) && count.add(Origin::Local, key(9_999)));
        count.remove(Origin::Network, key(0));
        assert!(count.add(Origin::Network, key(0)));
    }
}
