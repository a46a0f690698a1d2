//! Uploads: the files that operators hand in for the minions of a job, in `cachedir/uploads/ID/NUMBER`.
//!
//! The id of an upload is random, and the job tells it to its minions as a secret: who knows it may fetch the files. An upload is
//! removed by the operator's program when the job has ended, and otherwise after a day. Only the process that
//! began an upload takes parts of it, since who began it and which parts came is in memory alone: the command that sends them is there to be
//! run again. Files that are whole are handed out after a restart too.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_data::printable::number_of;
use saline_jailed_files::InnerPath;
use saline_messages::{FileRefusal, MAX_PART, MAX_UPLOADED_FILES, Part, TransferId, UploadId};
use saline_protocol::transport::Context;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::figures::FileFigures;
use super::received_parts::{discard, failed, take_part};
use super::upload_folders::{self, MAX_BYTES};

/// The most uploads at a time.
const MAX_UPLOADS: usize = 256;

/// How long an upload has its room of which nothing is on the disk, from the last request about it on.
const UNUSED_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// How many threads write at a time.
const WRITERS: usize = 2;

/// Keeps the files of uploads.
#[derive(Debug)]
pub(super) struct Uploads {
    folder: PathBuf,
    figures: Arc<FileFigures>,
    context: Context,
    writers: Arc<Semaphore>,
    /// Has one permit, for the upload that begins.
    beginning: Arc<Semaphore>,
    /// Those that were begun since the master started.
    begun: Mutex<HashMap<UploadId, Upload>>,
}

/// An upload that was begun.
#[derive(Debug)]
struct Upload {
    owner: String,
    files: u32,
    bytes: u64,
    /// The transfers of the files of which something came, and their lengths, by the numbers of the files.
    transfers: HashMap<u32, (TransferId, u64)>,
    /// When it was begun, or a part of it came last.
    last_request: Instant,
    /// Has one permit: its parts are taken one after the other.
    turn: Arc<Semaphore>,
}

/// The reason why a request about an upload is not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// The upload has too many files.
    #[error(
        "an upload has at most {MAX_UPLOADED_FILES} files: send a folder in parts, or put it below file_roots"
    )]
    TooManyFiles,
    /// There is no room for it.
    #[error(
        "there is no room for {wanted} bytes: uploads have at most {MAX_BYTES} together, and {used} are taken by {count}; each \
         goes when its saline-cp ends, or after a day"
    )]
    NoRoom {
        /// The bytes of the new upload.
        wanted: u64,
        /// The bytes of the others.
        used: u64,
        /// How many these are.
        count: String,
    },
    /// The master does not know the upload, or it is somebody else's.
    #[error(
        "the master does not know this upload: it was restarted meanwhile, or nothing came for an hour; run the command again"
    )]
    Unknown,
    /// The part does not belong to what was announced.
    #[error("the files are not those that were announced: they changed while they were sent")]
    NotAnnounced,
    /// The file cannot be written.
    #[error("{0}")]
    Refused(FileRefusal),
}

impl Uploads {
    pub(super) fn new(folder: PathBuf, figures: Arc<FileFigures>, context: Context) -> Self {
        Self {
            folder,
            figures,
            context,
            writers: Arc::new(Semaphore::new(WRITERS)),
            beginning: Arc::new(Semaphore::new(1)),
            begun: Mutex::default(),
        }
    }

    /// Returns the folder of all uploads.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Begins an upload of this many files and bytes; one that was begun stays as it is.
    pub(super) async fn begin(
        &self,
        owner: String,
        id: UploadId,
        files: u32,
        bytes: u64,
    ) -> Result<(), UploadError> {
        if files > MAX_UPLOADED_FILES {
            return Err(UploadError::TooManyFiles);
        }
        // Never closed: one begins at a time, so that two do not take the same room.
        let _turn = Arc::clone(&self.beginning).acquire_owned().await;
        if let Some(upload) = self.begun().get(&id) {
            return match upload.owner == owner {
                true => Ok(()),
                false => Err(UploadError::Unknown),
            };
        }
        self.remove_expired().await;
        let folder = self.folder.clone();
        let announced: HashMap<UploadId, u64> = {
            let begun = self.begun();
            begun.iter().map(|(id, one)| (*id, one.bytes)).collect()
        };
        let looking = self.context.spawn_blocking(move || {
            upload_folders::taken(&folder, announced).map_err(|error| failed(&folder, &error))
        });
        let taken = looking.await.unwrap_or(Err(FileRefusal::Failed));
        let taken = taken.map_err(UploadError::Refused)?;
        let used = taken.values().copied().fold(0, u64::saturating_add);
        if used.saturating_add(bytes) > MAX_BYTES || taken.len() >= MAX_UPLOADS {
            return Err(UploadError::NoRoom {
                wanted: bytes,
                used,
                count: number_of(taken.len(), "upload"),
            });
        }
        let upload = Upload {
            owner,
            files,
            bytes,
            transfers: HashMap::new(),
            last_request: self.context.clock.now(),
            turn: Arc::new(Semaphore::new(1)),
        };
        self.begun().insert(id, upload);
        Ok(())
    }

    /// Takes a part of a file, and returns how many bytes of the file are there.
    pub(super) async fn take(
        &self,
        owner: &str,
        id: UploadId,
        number: u32,
        part: Part,
    ) -> Result<u64, UploadError> {
        if part.end().is_none() || part.bytes.len() > MAX_PART {
            return Err(UploadError::NotAnnounced);
        }
        let path = InnerPath::parse(&number.to_string())
            .map_err(|_| UploadError::Refused(FileRefusal::BadPath))?;
        let turn = self.turn_of(owner, id)?;
        // Never closed, like the other one.
        let mut turn = turn.acquire_owned().await.ok();
        let folder = self.folder.join(id.to_text());
        if let Some(earlier) = self.check(owner, id, number, &part)? {
            if part.offset != 0 {
                // Nothing of this transfer is there.
                return Ok(0);
            }
            turn = self.discard(turn, &folder, &path, earlier).await?;
        }
        self.note_transfer(id, number, &part);
        let writer = Arc::clone(&self.writers).acquire_owned().await;
        let figures = Arc::clone(&self.figures);
        let cancel = self.context.cancel.clone();
        let taking = self.context.spawn_blocking(move || {
            let taken = take_part(&folder, &path, &part, false, &cancel, |_, _| Ok(()));
            if matches!(taken, Ok(received) if received >= part.end().unwrap_or(u64::MAX)) {
                figures.count_received(part.bytes.len());
            }
            drop((turn, writer));
            taken
        });
        let taken = taking.await.unwrap_or(Err(FileRefusal::Failed));
        taken.map_err(UploadError::Refused)
    }

    /// Returns the turn of an upload, in which its parts are written.
    fn turn_of(&self, owner: &str, id: UploadId) -> Result<Arc<Semaphore>, UploadError> {
        let now = self.context.clock.now();
        let mut begun = self.begun();
        let upload = begun.get_mut(&id).filter(|upload| upload.owner == owner);
        let upload = upload.ok_or(UploadError::Unknown)?;
        upload.last_request = now;
        Ok(Arc::clone(&upload.turn))
    }

    /// Checks that a part belongs to what was announced. Returns the earlier transfer of its file, if that is another one.
    fn check(
        &self,
        owner: &str,
        id: UploadId,
        number: u32,
        part: &Part,
    ) -> Result<Option<TransferId>, UploadError> {
        let begun = self.begun();
        let upload = begun.get(&id).filter(|upload| upload.owner == owner);
        let upload = upload.ok_or(UploadError::Unknown)?;
        let others = upload
            .transfers
            .iter()
            .filter(|(other, _)| **other != number);
        let bytes = others.map(|(_, (_, bytes))| *bytes);
        let all = bytes.fold(part.total, u64::saturating_add);
        if number >= upload.files || all > upload.bytes {
            return Err(UploadError::NotAnnounced);
        }
        let earlier = upload.transfers.get(&number);
        // With another length it is another one: what is there was counted with the length of before.
        let earlier = earlier.filter(|earlier| **earlier != (part.transfer, part.total));
        Ok(earlier.map(|(transfer, _)| *transfer))
    }

    /// Removes what there is of a file, whose transfer is given up: two transfers of one file would have twice its room.
    async fn discard(
        &self,
        turn: Option<OwnedSemaphorePermit>,
        folder: &Path,
        path: &InnerPath,
        earlier: TransferId,
    ) -> Result<Option<OwnedSemaphorePermit>, UploadError> {
        let (folder, path) = (folder.to_owned(), path.clone());
        let discarding = self
            .context
            .spawn_blocking(move || discard(&folder, &path, earlier).map(|()| turn));
        let discarded = discarding.await.unwrap_or(Err(FileRefusal::Failed));
        discarded.map_err(UploadError::Refused)
    }

    /// Notes by which transfer a file comes.
    fn note_transfer(&self, id: UploadId, number: u32, part: &Part) {
        // One that was removed meanwhile has no room to note.
        if let Some(upload) = self.begun().get_mut(&id) {
            let transfer = (part.transfer, part.total);
            upload.transfers.insert(number, transfer);
        }
    }

    /// Removes an upload; one that is not there is removed already.
    pub(super) async fn end(&self, owner: &str, id: UploadId) -> Result<(), UploadError> {
        let ended = {
            let mut begun = self.begun();
            // One of an earlier start is known by its id alone, which nobody guesses.
            if begun.get(&id).is_some_and(|upload| upload.owner != owner) {
                return Err(UploadError::Unknown);
            }
            begun.remove(&id)
        };
        // A part that is being written would make the folder again.
        let turn = match ended {
            Some(upload) => upload.turn.acquire_owned().await.ok(),
            None => None,
        };
        let folder = self.folder.clone();
        let removing = self.context.spawn_blocking(move || {
            let removed = upload_folders::remove(&folder, &id.to_text());
            drop(turn);
            removed
        });
        match removing.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(UploadError::Refused(failed(&self.folder, &error))),
            Err(_) => Err(UploadError::Refused(FileRefusal::Failed)),
        }
    }

    /// Removes the uploads that nobody has removed for a day, and forgets those of which nothing came in time.
    pub(super) async fn remove_expired(&self) {
        let folder = self.folder.clone();
        let removing = self.context.spawn_blocking(move || {
            let removed = upload_folders::remove_expired(&folder);
            let left = upload_folders::folders(&folder);
            (removed, left, folder)
        });
        // One that panicked is logged by the runtime.
        let Ok((removed, left, folder)) = removing.await else {
            return;
        };
        let failed = |error: &io::Error| {
            tracing::warn!(
                "old uploads in {} are not removed: {error}",
                folder.display()
            );
        };
        match removed {
            Ok(removed) => self.begun().retain(|id, _| !removed.contains(id)),
            Err(error) => failed(&error),
        }
        let now = self.context.clock.now();
        match left {
            Ok(left) => self.begun().retain(|id, upload| {
                now.duration_since(upload.last_request) < UNUSED_LIFETIME
                    || left.iter().any(|(other, _)| other == id)
            }),
            Err(error) => failed(&error),
        }
    }

    fn begun(&self) -> MutexGuard<'_, HashMap<UploadId, Upload>> {
        // Its changes are single calls that leave it whole.
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
