//! The ids of the keys in a folder, which every publication needs: read again only when the folder has
//! changed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use saline_protocol::channel::KeyError;
use saline_protocol::message::MinionId;

use super::folder::{AT_REST, Folder, Found};

/// The ids that were read from a folder.
#[derive(Debug, Default)]
pub(super) struct FolderIds {
    /// The folder's modification time, if it can be trusted.
    changed: Option<SystemTime>,
    /// The ids, sorted.
    ids: Arc<Vec<MinionId>>,
}

impl FolderIds {
    /// Returns the ids whose files hold keys, sorted. A file that held a key when its name was first seen is
    /// assumed to hold one still.
    pub(super) fn get(
        &mut self,
        folder: &Folder,
        now: SystemTime,
    ) -> Result<Arc<Vec<MinionId>>, KeyError> {
        let holds_key = |id: &MinionId| Ok(matches!(folder.read(id)?, Found::Key(_)));
        self.refresh(folder, now, holds_key)
    }

    /// Returns the ids that have a file, sorted, whatever it holds.
    pub(super) fn get_all(
        &mut self,
        folder: &Folder,
        now: SystemTime,
    ) -> Result<Arc<Vec<MinionId>>, KeyError> {
        self.refresh(folder, now, |_| Ok(true))
    }

    fn refresh(
        &mut self,
        folder: &Folder,
        now: SystemTime,
        counts: impl Fn(&MinionId) -> Result<bool, KeyError>,
    ) -> Result<Arc<Vec<MinionId>>, KeyError> {
        // Read before the names, so that a change in between is noticed the next time.
        let changed = folder.changed()?;
        if self.changed == Some(changed) {
            return Ok(Arc::clone(&self.ids));
        }
        let known: HashSet<&MinionId> = self.ids.iter().collect();
        let mut ids = Vec::new();
        for id in folder.names()? {
            if known.contains(&id) || counts(&id)? {
                ids.push(id);
            }
        }
        drop(known);
        ids.sort_unstable();
        if ids != *self.ids {
            self.ids = Arc::new(ids);
        }
        let at_rest = now.duration_since(changed).is_ok_and(|age| age > AT_REST);
        self.changed = at_rest.then_some(changed);
        Ok(Arc::clone(&self.ids))
    }
}
