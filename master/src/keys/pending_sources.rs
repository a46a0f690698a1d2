//! The sources of the pending keys: when the store is full, a source with many pending keys makes room for others.

use std::collections::HashSet;
use std::time::Duration;

use saline_channel::KeyError;
use saline_messages::MinionId;
use saline_protocol::transport::Source;

use super::folder::Found;
use super::{Acting, KeyStore};

/// How long the list of pending keys is cached. Keys that the master adds are counted at once; keys
/// that an operator copies or deletes by hand are counted after this time.
const LIST_KEPT: Duration = Duration::from_secs(1);

/// Whether there is room for one more pending key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Room {
    /// There is room.
    Free,
    /// There is room, since the pending key of this minion was removed.
    Displaced(MinionId),
    /// There is no room.
    Full,
}

impl KeyStore {
    /// Returns the pending key of this id and the source that its file names; none when there is none.
    pub(crate) fn pending_source(&self, id: &MinionId) -> Option<([u8; 32], Source)> {
        match self.pending.read(id) {
            Ok(Found::Key(key)) => Some((key, self.pending.source(id)?)),
            _ => None,
        }
    }

    /// Makes room for one more pending key of this source. When there are `most`, the source that has most
    /// pending keys loses the one that was presented least recently, unless it has no more than this one.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn make_room(
        &self,
        acting: &mut Acting,
        source: Source,
        most: usize,
    ) -> Result<Room, KeyError> {
        self.list_pending(acting)?;
        if acting.pending_sources.len() < most {
            return Ok(Room::Free);
        }
        let Some(id) = acting.pending_sources.eviction_candidate(source).cloned() else {
            return Ok(Room::Full);
        };
        self.pending.remove(&id)?;
        acting.pending_sources.release(&id);
        Ok(Room::Displaced(id))
    }

    /// Lists the folder of pending keys, unless it was listed less than [`LIST_KEPT`] ago: it can hold ten thousand
    /// keys, and strangers decide how often this is called.
    fn list_pending(&self, acting: &mut Acting) -> Result<(), KeyError> {
        let now = self.clock.now();
        if let Some(listed) = acting.pending
            && now.saturating_duration_since(listed) < LIST_KEPT
        {
            return Ok(());
        }
        let names: HashSet<_> = self.pending.names()?.into_iter().collect();
        let sources = &mut acting.pending_sources;
        let gone: Vec<_> = sources
            .keys()
            .filter(|id| !names.contains(*id))
            .cloned()
            .collect();
        for id in gone {
            sources.release(&id);
        }
        let mut unknown = Vec::new();
        for id in names {
            if !sources.contains(&id) {
                unknown.push((self.pending.modified(&id)?, id));
            }
        }
        // Those that were presented before this start, or that an operator copied: the oldest first.
        unknown.sort();
        for (_, id) in unknown {
            // A file that names none was put there by hand.
            let source = self.pending.source(&id).unwrap_or(Source::Process);
            sources.take(id, source);
        }
        acting.pending = Some(now);
        Ok(())
    }
}
