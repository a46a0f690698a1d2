//! A note of the last start beside the identity of the minion. It proves to the next start, when the spool was emptied or
//! put back from an older copy, that the start in the note has ended: both run in the same boot, with the same folder of the
//! identity, whose lock one of them holds at a time. Without it such a start looks like another machine with the same key.

use std::io;
use std::path::{Path, PathBuf};

use saline_daemon::InstanceLock;
use saline_messages::{StartId, decode, encode};
use serde::{Deserialize, Serialize};

use super::Start;
use crate::spool_location::SpoolLocation;

/// The name of the file in the folder of the identity.
const FILE: &str = "last_start";

/// The lock beside it. Its holder alone may conclude that the start in the note has ended.
const LOCK: &str = ".lock";

/// The note of a start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NotedStart {
    /// The id of the start.
    pub(super) start: StartId,
    /// The starts before it from the last one that was reconciled with a master on; none when it was reconciled.
    pub(super) predecessors: Vec<StartId>,
    /// The boot, and the folder of the identity.
    place: SpoolLocation,
}

/// Writes the note of a start, and has read that of the one before.
#[derive(Debug)]
pub(super) struct StartNote {
    path: PathBuf,
    place: SpoolLocation,
    /// The start before, if it surely has ended.
    before: Option<NotedStart>,
    _lock: InstanceLock,
}

impl StartNote {
    /// Reads the note in the folder of the identity. Returns none when another minion uses that folder, or the folder
    /// cannot be used: then nothing is concluded and nothing noted.
    pub(super) fn take(folder: &Path) -> Option<Self> {
        let lock = InstanceLock::take(&folder.join(LOCK));
        let lock = lock
            .inspect_err(|error| {
                tracing::warn!("starts are not noted beside the identity: {error}")
            })
            .ok()?;
        let (path, place) = (folder.join(FILE), SpoolLocation::of(Some(folder)));
        let before = read(&path).filter(|noted| noted.place.is_surely(&place));
        Some(Self {
            path,
            place,
            before,
            _lock: lock,
        })
    }

    /// Returns the start before, if it surely has ended.
    pub(super) fn before(&self) -> Option<&NotedStart> {
        self.before.as_ref()
    }

    /// Notes a start. It is not synced: after a restart of the machine the note proves nothing.
    pub(super) fn note(&self, start: &Start) {
        let noted = NotedStart {
            start: start.id,
            predecessors: match start.reconciled {
                true => Vec::new(),
                false => start.predecessors.clone(),
            },
            place: self.place.clone(),
        };
        if let Err(error) = saline_private_files::write(&self.path, &encode(&noted)) {
            tracing::warn!(
                "this start is not noted in {}: {error}",
                self.path.display()
            );
        }
    }
}

fn read(path: &Path) -> Option<NotedStart> {
    // The longest note has sixteen starts and the id of a boot.
    const LONGEST: u64 = 4096;
    let mut options = saline_private_files::options();
    let file = saline_private_files::open(path, options.read(true)).ok()?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, LONGEST), &mut bytes).ok()?;
    decode(&bytes).ok()
}
