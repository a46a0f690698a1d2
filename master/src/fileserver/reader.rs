//! Looks at files and reads parts of them, in threads for blocking work.

use std::path::PathBuf;
use std::sync::Arc;

use saline_jailed_files::{FileVersion, InnerPath, JailedFile, OpenError, Root};
use saline_messages::{FileRefusal, MinionId, Part, SeenFile, TransferId};
use saline_protocol::transport::{Clock, Context};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::figures::FileFigures;
use super::hash_askers::{FileAskers, HashAskers};
use super::hashes::{Hashes, hash};
use super::minion_turns::MinionTurns;
use super::no_answer::{NoAnswer, WAIT};

/// The largest file that is served, in bytes: 64 GiB. Its hash has to be made first, which keeps others from theirs.
pub(super) const MAX_FILE: u64 = 64 * 1024 * 1024 * 1024;

/// A file of at most so many bytes is hashed in the place of a part.
const SMALL: u64 = 4 * 1024 * 1024;

/// How many threads read at a time, so that a disk that hangs holds no more.
const READERS: usize = 4;

/// How often a file is read again that is written meanwhile, before the minion is asked to come again.
const READ_AGAIN: usize = 3;

/// Looks at files and reads parts of them.
#[derive(Debug)]
pub(super) struct Reader {
    hashes: Arc<Hashes>,
    figures: Arc<FileFigures>,
    context: Context,
    readers: Arc<Semaphore>,
    /// Has one permit, for the large file that is hashed.
    pub(super) hashing: Arc<Semaphore>,
    /// A minion waits for one large file at a time, so that the files of others come between its own.
    minions: MinionTurns,
    pub(super) askers: HashAskers,
}

/// The result of a look.
enum Look {
    Seen(SeenFile),
    /// The file is large, and its hash is not known.
    Large(FileVersion),
    /// The file is written all the time, or nobody waits for its hash any more.
    Unsteady,
}

impl Reader {
    pub(super) fn new(hashes: Arc<Hashes>, figures: Arc<FileFigures>, context: Context) -> Self {
        Self {
            hashes,
            figures,
            askers: HashAskers::new(context.clock),
            context,
            readers: Arc::new(Semaphore::new(READERS)),
            hashing: Arc::new(Semaphore::new(1)),
            minions: MinionTurns::default(),
        }
    }

    pub(super) fn forget(&self) {
        self.hashes.forget();
    }

    /// Returns what a file is now, with its hash, for the minion `id`.
    pub(super) async fn look(
        &self,
        id: &MinionId,
        roots: Vec<PathBuf>,
        path: InnerPath,
    ) -> Result<SeenFile, NoAnswer> {
        let turn = self.turn(&self.readers).await?;
        let work = self.looking(roots.clone(), path.clone(), SMALL, None);
        let version = match self.run(turn, work).await? {
            Look::Seen(seen) => return Ok(seen),
            Look::Unsteady => return Err(NoAnswer::Busy),
            Look::Large(version) => version,
        };
        let asking = self.askers.ask(&version);
        let _own = self.turn(&self.minions.of(id)).await?;
        // Another one may hash it now: then it is known when it is this one's turn.
        let turn = self.turn(&self.hashing).await?;
        let work = self.looking(roots, path, MAX_FILE, Some(Arc::clone(&asking.0)));
        match self.run(turn, work).await? {
            Look::Seen(seen) => Ok(seen),
            Look::Unsteady | Look::Large(_) => Err(NoAnswer::Busy),
        }
    }

    /// Returns the part of a file from `offset` on; none when the file is not what it was when it was looked at.
    pub(super) async fn part(
        &self,
        roots: Vec<PathBuf>,
        path: InnerPath,
        transfer: TransferId,
        offset: u64,
        most: usize,
    ) -> Result<Option<Part>, NoAnswer> {
        let turn = self.turn(&self.readers).await?;
        let (hashes, figures) = (Arc::clone(&self.hashes), Arc::clone(&self.figures));
        let work = move || {
            let file = open(&roots, &path)?;
            let version = file.version();
            let is_known = hashes
                .of(&version)
                .is_some_and(|known| known.hash == transfer);
            let left = version.size.saturating_sub(offset);
            let length = usize::try_from(left).map_or(most, |left| left.min(most));
            let mut bytes = vec![0; if is_known { length } else { 0 }];
            let read = file
                .read_at(&mut bytes, offset)
                .map_err(|error| failed(&path, &error))?;
            let now = file.version_now().map_err(|error| failed(&path, &error))?;
            if !is_known || read < length || now != version {
                figures.count_changed();
                return Ok(None);
            }
            Ok(Some(Part {
                transfer,
                total: version.size,
                offset: offset.min(version.size),
                bytes: bytes.into(),
            }))
        };
        self.run(turn, work).await
    }

    /// Waits for a turn, for a while.
    async fn turn(&self, turns: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, NoAnswer> {
        let clock = self.context.clock;
        let turn = clock.deadline(clock.after(WAIT), Arc::clone(turns).acquire_owned());
        // The semaphores are never closed.
        turn.await.ok().and_then(Result::ok).ok_or(NoAnswer::Busy)
    }

    /// Runs `work` in a thread. The turn ends with the work, also when nobody waits for it any more.
    async fn run<T: Send + 'static>(
        &self,
        turn: OwnedSemaphorePermit,
        work: impl FnOnce() -> Result<T, FileRefusal> + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let clock = self.context.clock;
        let running = self.context.spawn_blocking(move || {
            let done = work();
            drop(turn);
            done
        });
        match clock.deadline(clock.after(WAIT), running).await {
            Ok(Ok(done)) => Ok(done?),
            // It panicked, which the runtime logs.
            Ok(Err(_)) => Err(FileRefusal::Failed.into()),
            Err(_) => Err(NoAnswer::Busy),
        }
    }

    /// Returns the work of a look, which hashes a file of at most `most` bytes, and gives that up when the askers have gone.
    fn looking(
        &self,
        roots: Vec<PathBuf>,
        path: InnerPath,
        most: u64,
        askers: Option<Arc<FileAskers>>,
    ) -> impl FnOnce() -> Result<Look, FileRefusal> + Send + 'static + use<> {
        let (hashes, figures) = (Arc::clone(&self.hashes), Arc::clone(&self.figures));
        let cancel = self.context.cancel.clone();
        move || {
            let are_gone = || askers.as_ref().is_some_and(|askers| askers.are_gone());
            for _ in 0..READ_AGAIN {
                let file = open(&roots, &path)?;
                let version = file.version();
                let seen = |transfer| {
                    Look::Seen(SeenFile {
                        size: version.size,
                        // No served file makes a program of a minion that runs as its owner.
                        mode: file.mode() & 0o777,
                        transfer,
                    })
                };
                match hashes.of(&version) {
                    Some(known) if known.is_settled() => return Ok(seen(known.hash)),
                    _ => {}
                }
                match version.size {
                    size if size > MAX_FILE => return Err(FileRefusal::TooLarge),
                    size if size > most => return Ok(Look::Large(version)),
                    _ => {}
                }
                let began = Clock.wall();
                let hashed = match hash(&file, || cancel.is_cancelled() || are_gone()) {
                    Err(_) if are_gone() => return Ok(Look::Unsteady),
                    hashed => hashed.map_err(|error| failed(&path, &error))?,
                };
                figures.count_hashed(version.size);
                if let Some(transfer) = hashed {
                    hashes.note(version, transfer, began);
                    return Ok(seen(transfer));
                }
            }
            Ok(Look::Unsteady)
        }
    }
}

/// Opens a file in the first root that has it.
fn open(roots: &[PathBuf], path: &InnerPath) -> Result<JailedFile, FileRefusal> {
    for folder in roots {
        let root = match Root::open(folder) {
            Ok(root) => root,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => {
                tracing::warn!("the root {} cannot be opened: {error}", folder.display());
                continue;
            }
        };
        match root.open_file(path) {
            Ok(file) => return Ok(file),
            Err(OpenError::NotFound | OpenError::OtherKind(_)) => {}
            Err(OpenError::LeadsOut | OpenError::TooManyLinks) => return Err(FileRefusal::BadPath),
            Err(error) => return Err(failed(path, &error)),
        }
    }
    Err(FileRefusal::NoFile)
}

fn failed(path: &InnerPath, error: &dyn std::fmt::Display) -> FileRefusal {
    tracing::warn!("{:?} cannot be served: {error}", path.as_str());
    FileRefusal::Failed
}
