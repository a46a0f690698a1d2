//! The files that minions hand in: `cachedir/minions/ID/files`, each minion's beneath a root of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use saline_jailed_files::{InnerPath, ListingLimits, Root};
use saline_messages::{FileRefusal, MAX_PART, MinionId, Part};
use saline_protocol::transport::{Clock, Context};
use tokio::sync::Semaphore;

use super::figures::FileFigures;
use super::minion_turns::MinionTurns;
use super::no_answer::{NoAnswer, WAIT};
use super::received_parts::{TEMPORARY, failed, take_part};

/// How many of the largest files all files of a minion take at most.
const FILES_OF_MINION: u64 = 10;

/// The bounds of the folder of one minion.
const MINION_FOLDER_LIMITS: ListingLimits = ListingLimits {
    entries: 10_000,
    bytes: 4 * 1024 * 1024,
};

/// Paths that nest deeper are refused: a listing goes 64 deep, and what lies deeper would not be counted.
const MAX_DEPTH: usize = 32;

/// The number of seconds after which a file to which nothing was written is not completed any more.
pub(super) const ABANDONED: i64 = 600;

/// How many threads write at a time.
const WRITERS: usize = 2;

/// Takes the files that minions hand in.
#[derive(Debug)]
pub(super) struct PushedFiles {
    folder: PathBuf,
    figures: Arc<FileFigures>,
    context: Context,
    writers: Arc<Semaphore>,
    minions: MinionTurns,
}

impl PushedFiles {
    pub(super) fn new(folder: PathBuf, figures: Arc<FileFigures>, context: Context) -> Self {
        Self {
            folder,
            figures,
            context,
            writers: Arc::new(Semaphore::new(WRITERS)),
            minions: MinionTurns::default(),
        }
    }

    /// Takes a part of a file of at most `most` bytes, and returns how many bytes of the file are there.
    pub(super) async fn take(
        &self,
        id: &MinionId,
        path: InnerPath,
        part: Part,
        most: u64,
    ) -> Result<u64, NoAnswer> {
        let is_too_deep = path.components().count() > MAX_DEPTH;
        if part.end().is_none() || part.bytes.len() > MAX_PART || path.is_root() || is_too_deep {
            return Err(FileRefusal::BadPath.into());
        }
        if part.total > most {
            return Err(FileRefusal::TooLarge.into());
        }
        let own = self.minions.of(id);
        let clock = self.context.clock;
        let turns = async {
            // Neither is ever closed.
            Some((
                own.acquire_owned().await.ok()?,
                Arc::clone(&self.writers).acquire_owned().await.ok()?,
            ))
        };
        let turns = clock.deadline(clock.after(WAIT), turns).await;
        let turns = turns.ok().flatten().ok_or(NoAnswer::Busy)?;
        let (folder, figures) = (
            self.folder.join(id.as_str()).join("files"),
            Arc::clone(&self.figures),
        );
        let cancel = self.context.cancel.clone();
        let taking = self.context.spawn_blocking(move || {
            let room = |root: &Root, own: &InnerPath| make_room(&folder, root, own, &part, most);
            let taken = take_part(&folder, &path, &part, true, &cancel, room);
            if matches!(taken, Ok(received) if received >= part.end().unwrap_or(u64::MAX)) {
                figures.count_received(part.bytes.len());
            }
            drop(turns);
            taken
        });
        match taking.await {
            // What is there stays: the minion goes on when the master is there again.
            Ok(Err(_)) if self.context.cancel.is_cancelled() => Err(NoAnswer::Busy),
            Ok(taken) => Ok(taken?),
            Err(_) => Err(FileRefusal::Failed.into()),
        }
    }
}

/// Removes what nobody completes any more, and checks that there is room for another file, which is written to `own`.
fn make_room(
    folder: &Path,
    root: &Root,
    own: &InnerPath,
    part: &Part,
    most: u64,
) -> Result<(), FileRefusal> {
    let now = Clock.wall().duration_since(std::time::UNIX_EPOCH);
    let abandoned_before = now.unwrap_or_default().as_secs().cast_signed() - ABANDONED;
    let listed = root.list(&InnerPath::root(), MINION_FOLDER_LIMITS, |_| true);
    let listed = listed
        .map_err(|error| failed(folder, &error))?
        .map_err(|_| FileRefusal::NoRoom)?;
    let mut bytes: u64 = 0;
    for entry in listed.after(None) {
        let Ok(path) = InnerPath::parse(entry.path) else {
            continue;
        };
        let is_unfinished = path
            .split_name()
            .is_some_and(|(_, name)| name.starts_with(TEMPORARY));
        if path == *own {
            continue;
        }
        let Ok(file) = root.open_file(&path) else {
            continue;
        };
        let version = file.version();
        if is_unfinished && version.modified.0 < abandoned_before {
            root.remove(&path).map_err(|error| failed(folder, &error))?;
            continue;
        }
        // Another one that is under way may grow to the largest.
        bytes = bytes.saturating_add(if is_unfinished { most } else { version.size });
    }
    match bytes.saturating_add(part.total) > most.saturating_mul(FILES_OF_MINION) {
        true => Err(FileRefusal::NoRoom),
        false => Ok(()),
    }
}
