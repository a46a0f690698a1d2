//! Uploads: the files that operators hand in for the minions of a job, in `cachedir/uploads/ID/NUMBER`.
//!
//! The id of an upload is random, and the job tells it to its minions as a secret: who knows it may fetch the files. An upload is
//! removed by the operator's program when the job has ended, and otherwise after a day.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_data::printable::number_of;
use saline_jailed_files::{InnerPath, ListingLimits, Root};
use saline_messages::{FileRefusal, MAX_PART, MAX_UPLOADED_FILES, Part, UploadId};
use saline_protocol::transport::{Clock, Context};
use tokio::sync::Semaphore;

use super::figures::FileFigures;
use super::received_parts::{failed, take_part};

/// The bytes that all uploads may have.
const MAX_BYTES: u64 = 8 * 1024 * 1024 * 1024;

/// The most uploads at a time.
const MAX_UPLOADS: usize = 256;

/// How long an upload is kept that nobody removes.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// What one upload may have on the disk, to count it: its files, and one that is not complete.
const LIMITS: ListingLimits = ListingLimits {
    entries: MAX_UPLOADED_FILES as usize + 16,
    bytes: 1024 * 1024,
};

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
    /// The lengths of the files of which something came, by their numbers.
    totals: HashMap<u32, u64>,
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
        "the master does not know this upload: it was started anew meanwhile; run the command again"
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
            taken(&folder, announced).map_err(|error| failed(&folder, &error))
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
            totals: HashMap::new(),
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
        self.note_total(owner, id, number, part.total)?;
        let path = InnerPath::parse(&number.to_string())
            .map_err(|_| UploadError::Refused(FileRefusal::BadPath))?;
        // It is never closed.
        let turn = Arc::clone(&self.writers).acquire_owned().await;
        let (folder, figures) = (self.folder.join(id.to_text()), Arc::clone(&self.figures));
        let taking = self.context.spawn_blocking(move || {
            let taken = take_part(&folder, &path, &part, false, |_, _| Ok(()));
            if matches!(taken, Ok(received) if received >= part.end().unwrap_or(u64::MAX)) {
                figures.count_received(part.bytes.len());
            }
            drop(turn);
            taken
        });
        let taken = taking.await.unwrap_or(Err(FileRefusal::Failed));
        taken.map_err(UploadError::Refused)
    }

    /// Notes the length of a file, if it was announced.
    fn note_total(
        &self,
        owner: &str,
        id: UploadId,
        number: u32,
        total: u64,
    ) -> Result<(), UploadError> {
        let mut begun = self.begun();
        let upload = begun.get_mut(&id).filter(|upload| upload.owner == owner);
        let upload = upload.ok_or(UploadError::Unknown)?;
        let others = upload.totals.iter().filter(|(other, _)| **other != number);
        let all = others.fold(total, |sum, (_, bytes)| sum.saturating_add(*bytes));
        if number >= upload.files || all > upload.bytes {
            return Err(UploadError::NotAnnounced);
        }
        upload.totals.insert(number, total);
        Ok(())
    }

    /// Removes an upload; one that is not there is removed already.
    pub(super) async fn end(&self, owner: &str, id: UploadId) -> Result<(), UploadError> {
        {
            let mut begun = self.begun();
            // One of an earlier start is known by its id alone, which nobody guesses.
            if begun.get(&id).is_some_and(|upload| upload.owner != owner) {
                return Err(UploadError::Unknown);
            }
            begun.remove(&id);
        }
        let folder = self.folder.clone();
        let removing = self
            .context
            .spawn_blocking(move || remove(&folder, &id.to_text()));
        match removing.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(UploadError::Refused(failed(&self.folder, &error))),
            Err(_) => Err(UploadError::Refused(FileRefusal::Failed)),
        }
    }

    /// Removes the uploads that nobody has removed for a day.
    pub(super) async fn remove_expired(&self) {
        let folder = self.folder.clone();
        let removing = self.context.spawn_blocking(move || {
            remove_expired(&folder).unwrap_or_else(|error| {
                tracing::warn!(
                    "old uploads in {} are not removed: {error}",
                    folder.display()
                );
                Vec::new()
            })
        });
        // One that panicked is logged by the runtime.
        for id in removing.await.unwrap_or_default() {
            self.begun().remove(&id);
        }
    }

    fn begun(&self) -> MutexGuard<'_, HashMap<UploadId, Upload>> {
        // Its changes are single calls that leave it whole.
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the path below the folder of uploads of a file that a minion names; none unless it is `ID/NUMBER`.
pub(super) fn path(text: &str) -> Result<InnerPath, FileRefusal> {
    let (id, number) = text.split_once('/').ok_or(FileRefusal::NoFile)?;
    let id = UploadId::parse(id).ok_or(FileRefusal::NoFile)?;
    let number: u32 = number.parse().map_err(|_| FileRefusal::NoFile)?;
    InnerPath::parse(&format!("{}/{number}", id.to_text())).map_err(|_| FileRefusal::NoFile)
}

/// Returns the folders of uploads that are there, with the time when something was added last.
fn folders(folder: &Path) -> io::Result<Vec<(UploadId, std::time::SystemTime)>> {
    let found = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?,
    };
    let mut uploads = Vec::new();
    for entry in found {
        let entry = entry?;
        let Some(id) = entry.file_name().to_str().and_then(UploadId::parse) else {
            continue;
        };
        // One that is removed meanwhile is gone.
        if let Ok(modified) = entry.metadata().and_then(|found| found.modified()) {
            uploads.push((id, modified));
        }
    }
    Ok(uploads)
}

/// Returns the bytes that each upload takes: those that were announced, and of one of an earlier start those that are there.
fn taken(folder: &Path, announced: HashMap<UploadId, u64>) -> io::Result<HashMap<UploadId, u64>> {
    let mut taken = announced;
    for (id, _) in folders(folder)? {
        if taken.contains_key(&id) {
            continue;
        }
        let root = Root::open(&folder.join(id.to_text()))?;
        let listed = root
            .list(&InnerPath::root(), LIMITS, |_| true)
            .map_err(io::Error::other)?;
        let bytes = match listed {
            Ok(listed) => {
                let paths = listed
                    .after(None)
                    .filter_map(|entry| InnerPath::parse(entry.path).ok());
                let files = paths.filter_map(|path| root.open_file(&path).ok());
                files.map(|file| file.version().size).sum()
            }
            // Not one of ours: it takes all room until it is gone.
            Err(_) => MAX_BYTES,
        };
        taken.insert(id, bytes);
    }
    Ok(taken)
}

/// Removes old uploads, and returns them.
fn remove_expired(folder: &Path) -> io::Result<Vec<UploadId>> {
    let now = Clock.wall();
    let mut removed = Vec::new();
    for (id, modified) in folders(folder)? {
        if now.duration_since(modified).is_ok_and(|age| age > KEPT) {
            remove(folder, &id.to_text())?;
            removed.push(id);
        }
    }
    Ok(removed)
}

fn remove(folder: &Path, name: &str) -> io::Result<()> {
    let root = match Root::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        root => root?,
    };
    let path = InnerPath::parse(name).map_err(io::Error::other)?;
    root.remove_folder(&path).map_err(io::Error::other)
}
