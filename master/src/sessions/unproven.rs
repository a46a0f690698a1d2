//! The number of unproven sessions, which have not sent a first record: the handshake that made one could be a replay.

use std::collections::HashMap;

use saline_channel::PublicIdentity;

use super::ListenerKind;

/// The largest number of half-open handshakes of a listener; and of unproven sessions of the local endpoint, and of all other
/// listeners together.
pub const MAX_UNPROVEN: usize = 1024;

/// The largest number of unproven sessions of one key over the network, so that few keys do not take the places
/// of all others. On the local endpoint all command lines have one key.
const UNPROVEN_OF_KEY: usize = 8;

/// Counts unproven sessions. The local command line has places of its own.
#[derive(Debug, Default)]
pub(super) struct UnprovenCount {
    local: usize,
    others: usize,
    by_key: HashMap<PublicIdentity, usize>,
}

impl UnprovenCount {
    fn of(&mut self, kind: ListenerKind) -> &mut usize {
        match kind {
            ListenerKind::Local => &mut self.local,
            ListenerKind::Network | ListenerKind::Access => &mut self.others,
        }
    }

    /// Whether there is room for one more session from listeners of this kind.
    pub(super) fn has_room(&mut self, kind: ListenerKind) -> bool {
        *self.of(kind) < MAX_UNPROVEN
    }

    /// Counts one more session. Returns false, and counts nothing, when there are too many from listeners of its
    /// kind, or of its key.
    pub(super) fn add(&mut self, kind: ListenerKind, key: PublicIdentity) -> bool {
        let of_key = self.by_key.get(&key).copied().unwrap_or(0);
        let is_greedy = kind != ListenerKind::Local && of_key >= UNPROVEN_OF_KEY;
        if *self.of(kind) >= MAX_UNPROVEN || is_greedy {
            return false;
        }
        *self.of(kind) += 1;
        self.by_key.insert(key, of_key + 1);
        true
    }

    /// Counts one session less: it has proven itself, or is gone.
    pub(super) fn remove(&mut self, kind: ListenerKind, key: PublicIdentity) {
        let of_kind = self.of(kind);
        *of_kind = of_kind.saturating_sub(1);
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
    fn no_kind_of_listener_and_no_key_takes_the_places_of_others() {
        let mut count = UnprovenCount::default();
        let key = |number: usize| {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&number.to_be_bytes());
            PublicIdentity(key)
        };
        let one = (0..1_000).filter(|_| count.add(ListenerKind::Network, key(0)));
        assert_eq!(one.count(), UNPROVEN_OF_KEY);
        let all = (1..5_000).filter(|number| count.add(ListenerKind::Network, key(*number)));
        assert_eq!(all.count(), MAX_UNPROVEN - UNPROVEN_OF_KEY);
        assert!(!count.has_room(ListenerKind::Network));
        assert!(count.has_room(ListenerKind::Local) && count.add(ListenerKind::Local, key(9_999)));
        count.remove(ListenerKind::Network, key(0));
        assert!(count.add(ListenerKind::Network, key(0)));
    }
}
