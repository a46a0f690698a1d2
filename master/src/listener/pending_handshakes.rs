//! Handshakes that wait for their last message, bounded in number and time. Sources share their places.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use saline_channel::noise::PendingHandshake;
use saline_messages::SessionId;
use saline_protocol::transport::{Clock, Instant, NoPlace, Source, SourcePlaces};

use crate::sessions::{MAX_UNPROVEN, UNPROVEN_FOR};

/// The handshakes of one listener that wait for their last message.
pub(super) struct PendingHandshakes {
    clock: Clock,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    entries: HashMap<SessionId, Entry>,
    places: SourcePlaces<SessionId>,
}

struct Entry {
    state: PendingHandshake,
    since: Instant,
}

impl Waiting {
    /// Forgets the handshakes that are too old, when every place is taken.
    fn make_room(&mut self, now: Instant) {
        if self.places.len() < MAX_UNPROVEN {
            return;
        }
        let places = &mut self.places;
        self.entries.retain(|id, entry| {
            let stays = now - entry.since <= UNPROVEN_FOR;
            if !stays {
                places.release(id);
            }
            stays
        });
    }
}

impl PendingHandshakes {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            waiting: Mutex::default(),
        }
    }

    /// Whether there is a place for one more handshake of this source, if need be that of another source.
    pub(super) fn has_room(&self, source: Source) -> bool {
        let mut waiting = self.lock();
        waiting.make_room(self.clock.now());
        waiting.places.len() < MAX_UNPROVEN || waiting.places.eviction_candidate(source).is_some()
    }

    /// Holds a handshake until its last message comes. When every place is taken, the source that has most loses its
    /// oldest handshake.
    ///
    /// # Errors
    /// When that source has no more than this one.
    pub(super) fn insert(
        &self,
        id: SessionId,
        state: PendingHandshake,
        source: Source,
    ) -> Result<(), NoPlace> {
        let since = self.clock.now();
        let mut waiting = self.lock();
        waiting.make_room(since);
        if let Some(evicted) = waiting.places.take_one_of(MAX_UNPROVEN, id, source)? {
            waiting.entries.remove(&evicted);
        }
        waiting.entries.insert(id, Entry { state, since });
        Ok(())
    }

    /// Takes a handshake out; none when there is none with this id, or it is too old.
    pub(super) fn take(&self, id: SessionId) -> Option<PendingHandshake> {
        let now = self.clock.now();
        let mut waiting = self.lock();
        waiting.places.release(&id);
        let entry = waiting.entries.remove(&id)?;
        (now - entry.since <= UNPROVEN_FOR).then_some(entry.state)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for PendingHandshakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "PendingHandshakes({} handshakes)",
            self.lock().places.len()
        )
    }
}
