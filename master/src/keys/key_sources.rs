//! The sources of the pending and of the denied keys: when there are as many as there may be, a source with many of them
//! makes room for others.

use std::collections::HashSet;
use std::time::Duration;

use saline_channel::KeyError;
use saline_messages::MinionId;
use saline_protocol::transport::{Instant, Source, SourcePlaces};

use super::KeyStore;
use super::folder::{Folder, Found};

/// How long the list of a folder is cached. Keys that the master adds are counted at once; keys that an operator
/// copies or deletes by hand are counted after this time.
const LIST_KEPT: Duration = Duration::from_secs(1);

/// Whether there is room for one more key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Room {
    /// There is room.
    Free,
    /// There is room, since the key of this minion was removed.
    Displaced(MinionId),
    /// There is no room.
    Full,
}

/// The sources of the keys in one folder, by their files if they were not presented since the master started.
#[derive(Debug, Default)]
pub(super) struct KeySources {
    places: SourcePlaces<MinionId>,
    /// When the folder was listed last.
    listed: Option<Instant>,
}

impl KeySources {
    /// Notes that a source presented the key of this id.
    pub(super) fn take(&mut self, id: &MinionId, source: Source) {
        self.places.take(id.clone(), source);
    }

    /// Notes that the key of this id is not in the folder any more.
    pub(super) fn release(&mut self, id: &MinionId) {
        self.places.release(id);
    }

    /// Has the folder listed again the next time.
    pub(super) fn list_again(&mut self) {
        self.listed = None;
    }

    /// Makes room for one more key of this source. When there are `most`, the source that has most keys loses the one
    /// that was presented least recently, unless it has no more than this one.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn make_room(
        &mut self,
        folder: &Folder,
        now: Instant,
        source: Source,
        most: usize,
    ) -> Result<Room, KeyError> {
        self.list(folder, now)?;
        if self.places.len() < most {
            return Ok(Room::Free);
        }
        let Some(id) = self.places.eviction_candidate(source).cloned() else {
            return Ok(Room::Full);
        };
        folder.remove(&id)?;
        self.places.release(&id);
        Ok(Room::Displaced(id))
    }

    /// Whether the key of this id gives way to another one that `source` presents: its own source has more keys than
    /// that one would have.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn gives_way(
        &mut self,
        folder: &Folder,
        now: Instant,
        id: &MinionId,
        source: Source,
    ) -> Result<bool, KeyError> {
        self.list(folder, now)?;
        let holder = self.places.source(id);
        Ok(holder.is_some_and(|holder| self.places.count(holder) > self.places.count(source) + 1))
    }

    /// Lists the folder, unless it was listed less than [`LIST_KEPT`] ago: it can hold ten thousand keys, and strangers
    /// decide how often this is called.
    fn list(&mut self, folder: &Folder, now: Instant) -> Result<(), KeyError> {
        if let Some(listed) = self.listed
            && now.saturating_duration_since(listed) < LIST_KEPT
        {
            return Ok(());
        }
        let names: HashSet<_> = folder.names()?.into_iter().collect();
        let places = &mut self.places;
        let gone: Vec<_> = places
            .keys()
            .filter(|id| !names.contains(*id))
            .cloned()
            .collect();
        for id in gone {
            places.release(&id);
        }
        let mut unknown = Vec::new();
        for id in names {
            if !places.contains(&id) {
                unknown.push((folder.modified(&id)?, id));
            }
        }
        // Those that were presented before this start, or that an operator copied: the oldest first.
        unknown.sort();
        for (_, id) in unknown {
            // A file that names none was put there by hand.
            let source = folder.source(&id).unwrap_or(Source::Process);
            places.take(id, source);
        }
        self.listed = Some(now);
        Ok(())
    }
}

impl KeyStore {
    /// Returns the pending key of this id and the source that its file names; none when there is none.
    pub(crate) fn pending_source(&self, id: &MinionId) -> Option<([u8; 32], Source)> {
        match self.pending.read(id) {
            Ok(Found::Key(key)) => Some((key, self.pending.source(id)?)),
            _ => None,
        }
    }
}
