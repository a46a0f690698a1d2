//! The ids of the keys in a folder, which every publication needs: read again only when the folder has
//! changed, and a file that held no key when that has.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use saline_channel::KeyError;
use saline_messages::MinionId;

use super::folder::{AT_REST, FileStamp, Folder, Found};

/// The ids that were read from a folder.
#[derive(Debug, Default)]
pub(super) struct FolderIds {
    /// The folder's modification time, if it can be trusted.
    changed: Option<SystemTime>,
    /// The ids, sorted.
    ids: Arc<Vec<MinionId>>,
    /// The files that held no key, each with its stamp if that can be trusted. A file may be half written, and the
    /// folder does not change when it is finished.
    without_key: HashMap<MinionId, Option<FileStamp>>,
}

impl FolderIds {
    /// Returns the ids whose files hold keys, sorted. A file that held a key when its name was first seen is
    /// assumed to hold one still.
    pub(super) fn get(
        &mut self,
        folder: &Folder,
        now: SystemTime,
    ) -> Result<Arc<Vec<MinionId>>, KeyError> {
        if !self.refresh(folder, now, true)? && !self.without_key.is_empty() {
            self.read_again(folder, now)?;
        }
        Ok(Arc::clone(&self.ids))
    }

    /// Returns the ids that have a file, sorted, whatever it holds.
    pub(super) fn get_all(
        &mut self,
        folder: &Folder,
        now: SystemTime,
    ) -> Result<Arc<Vec<MinionId>>, KeyError> {
        self.refresh(folder, now, false)?;
        Ok(Arc::clone(&self.ids))
    }

    /// Returns the ids whose files held no key at the last [`get`](Self::get).
    pub(super) fn without_key(&self) -> Vec<MinionId> {
        self.without_key.keys().cloned().collect()
    }

    /// Reads the folder if it has changed, and returns whether it has.
    fn refresh(
        &mut self,
        folder: &Folder,
        now: SystemTime,
        keys_only: bool,
    ) -> Result<bool, KeyError> {
        // Read before the names, so that a change in between is noticed the next time.
        let changed = folder.changed()?;
        if changed.is_some() && self.changed == changed {
            return Ok(false);
        }
        let known: HashSet<&MinionId> = self.ids.iter().collect();
        let mut without_key = HashMap::new();
        let mut ids = Vec::new();
        for id in folder.names()? {
            if !keys_only || known.contains(&id) {
                ids.push(id);
                continue;
            }
            let before = self.without_key.get(&id).copied().flatten();
            match look(folder, &id, before, now)? {
                Looked::Key => ids.push(id),
                Looked::NoKey(stamp) => {
                    without_key.insert(id, stamp);
                }
            }
        }
        drop(known);
        self.without_key = without_key;
        ids.sort_unstable();
        if ids != *self.ids {
            self.ids = Arc::new(ids);
        }
        let is_at_rest = |at: &SystemTime| now.duration_since(*at).is_ok_and(|age| age > AT_REST);
        self.changed = changed.filter(is_at_rest);
        Ok(true)
    }

    /// Reads the files again that held no key and have changed.
    fn read_again(&mut self, folder: &Folder, now: SystemTime) -> Result<(), KeyError> {
        let mut found = Vec::new();
        for (id, stamp) in &mut self.without_key {
            match look(folder, id, *stamp, now)? {
                Looked::Key => found.push(id.clone()),
                Looked::NoKey(seen) => *stamp = seen,
            }
        }
        if !found.is_empty() {
            self.without_key.retain(|id, _| !found.contains(id));
            found.extend(self.ids.iter().cloned());
            found.sort_unstable();
            self.ids = Arc::new(found);
        }
        Ok(())
    }
}

/// The result of looking at a file.
enum Looked {
    Key,
    /// No key, and the stamp of the file if it can be trusted.
    NoKey(Option<FileStamp>),
}

/// Looks at a file, which is read unless it has the stamp that it had `before`, without a key.
fn look(
    folder: &Folder,
    id: &MinionId,
    before: Option<FileStamp>,
    now: SystemTime,
) -> Result<Looked, KeyError> {
    let stamp = folder.stamp(id)?;
    if before.is_some() && stamp == before {
        return Ok(Looked::NoKey(before));
    }
    Ok(match folder.read(id)? {
        Found::Key(_) => Looked::Key,
        Found::NoKey | Found::Nothing => {
            Looked::NoKey(stamp.filter(|stamp| stamp.is_older_than(now, AT_REST)))
        }
    })
}
