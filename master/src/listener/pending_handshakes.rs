//! Handshakes that wait for their last message, bounded in number and time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use saline_channel::noise::PendingHandshake;
use saline_messages::SessionId;
use saline_protocol::transport::{Clock, Instant};

use crate::sessions::{UNPROVEN, UNPROVEN_FOR};

/// The number of handshakes that wait from which cookies are asked for.
const LOADED: usize = UNPROVEN / 8;

/// The handshakes of one listener that wait for their last message.
pub(super) struct PendingHandshakes {
    clock: Clock,
    entries: Mutex<HashMap<SessionId, Entry>>,
}

struct Entry {
    state: PendingHandshake,
    since: Instant,
}

impl PendingHandshakes {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            entries: Mutex::default(),
        }
    }

    /// Whether so many handshakes wait that peers have to show first that they receive the answers.
    pub(super) fn is_under_load(&self) -> bool {
        let now = self.clock.now();
        let mut entries = self.lock();
        if entries.len() >= LOADED {
            entries.retain(|_, entry| now - entry.since <= UNPROVEN_FOR);
        }
        entries.len() >= LOADED
    }

    /// Whether one more handshake can be held. Forgets those that are too old when it is full.
    pub(super) fn has_room(&self) -> bool {
        let now = self.clock.now();
        let mut entries = self.lock();
        if entries.len() >= UNPROVEN {
            entries.retain(|_, entry| now - entry.since <= UNPROVEN_FOR);
        }
        entries.len() < UNPROVEN
    }

    /// Holds a handshake until its last message comes.
    pub(super) fn insert(&self, id: SessionId, state: PendingHandshake) {
        let since = self.clock.now();
        self.lock().insert(id, Entry { state, since });
    }

    /// Takes a handshake out; none when there is none with this id, or it is too old.
    pub(super) fn take(&self, id: SessionId) -> Option<PendingHandshake> {
        let now = self.clock.now();
        let entry = self.lock().remove(&id)?;
        (now - entry.since <= UNPROVEN_FOR).then_some(entry.state)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for PendingHandshakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PendingHandshakes({} handshakes)", self.lock().len())
    }
}
