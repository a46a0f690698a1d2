//! The files that the master serves: `salt://` of the environments in `file_roots`, those that minions hand in, and the uploads of
//! operators, which the minions of one job fetch.
//!
//! Every file is opened beneath a root ([`saline_jailed_files`]), in threads for blocking work, few at a time. A file is
//! known by its version (device, inode, size and times), under which its hash is kept in memory; a part is read only
//! while the file has the version whose hash the minion was told. What is on its way to minions is bounded
//! ([`SendingWindow`]), so that files delay nothing else, however many minions ask for them at once.

mod figures;
mod hash_askers;
mod hashes;
mod listings;
mod minion_turns;
mod no_answer;
mod pushed;
mod reader;
mod received_parts;
mod sending_window;
#[cfg(test)]
mod tests;
mod upload_folders;
mod uploads;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use saline_config::MasterConfig;
use saline_jailed_files::InnerPath;
use saline_messages::{
    FilePlace, FileRefusal, FileReply, FileRequest, MinionId, MinionReply, Part,
    UPLOADS_ENVIRONMENT, UploadId,
};
use saline_protocol::transport::Context;
use tokio::sync::Semaphore;

use crate::bounds::ConcurrencyLimit;
use crate::settings::{LiveSettings, ServedFiles, inner_path};
pub(crate) use figures::FileFigures;
use hashes::Hashes;
pub(crate) use listings::EnvironmentListing;
use listings::Listings;
use no_answer::NoAnswer;
use pushed::PushedFiles;
use reader::Reader;
use sending_window::SendingWindow;
pub(crate) use uploads::UploadError;
use uploads::Uploads;

/// How long a minion is asked to wait for a hash or a listing that is being made, or for its turn.
const BUSY: Duration = Duration::from_millis(500);

/// The most requests of all minions that wait at once: a quarter of what a transport hands out unanswered, so that files
/// never keep heartbeats and returns from being read.
const MOST_AT_ONCE: usize = 4096;

/// The most requests of one minion: two parts for each of four jobs.
const MOST_OF_ONE: usize = 8;

/// Serves files. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct FileServer {
    settings: LiveSettings,
    reader: Arc<Reader>,
    listings: Arc<Listings>,
    pushed: Arc<PushedFiles>,
    uploads: Arc<Uploads>,
    window: Arc<SendingWindow>,
    concurrency: Arc<ConcurrencyLimit>,
    /// One permit for each request that may wait.
    places: Arc<Semaphore>,
    figures: Arc<FileFigures>,
}

impl FileServer {
    /// Creates a server of the files that the settings name.
    pub(crate) fn new(config: &MasterConfig, settings: LiveSettings, context: &Context) -> Self {
        let figures = Arc::new(FileFigures::default());
        let received: PathBuf = config.paths.cache_dir.join("minions");
        let uploads: PathBuf = config.paths.cache_dir.join("uploads");
        let hashes = Arc::new(Hashes::default());
        Self {
            settings,
            reader: Arc::new(Reader::new(hashes, Arc::clone(&figures), context.clone())),
            listings: Arc::new(Listings::new(context.clone())),
            pushed: Arc::new(PushedFiles::new(
                received,
                Arc::clone(&figures),
                context.clone(),
            )),
            uploads: Arc::new(Uploads::new(uploads, Arc::clone(&figures), context.clone())),
            window: Arc::new(SendingWindow::new(context.clock)),
            concurrency: ConcurrencyLimit::new(MOST_OF_ONE),
            places: Arc::new(Semaphore::new(MOST_AT_ONCE)),
            figures,
        }
    }

    /// Returns what was counted.
    pub(crate) fn figures(&self) -> &Arc<FileFigures> {
        &self.figures
    }

    /// Carries out a request of the minion `id`.
    ///
    /// # Cancel safety
    /// A listing or a write that was begun is finished. A hash goes on for a while, for the minion that comes again.
    pub(crate) async fn answer(&self, id: &MinionId, request: FileRequest) -> MinionReply {
        self.figures.count_request();
        let (Some(_permit), Ok(_place)) = (self.concurrency.begin(id), self.places.try_acquire())
        else {
            return MinionReply::busy(BUSY);
        };
        match self.carry_out(id, request).await {
            Ok(reply) => MinionReply::Files(reply),
            Err(NoAnswer::Busy) => MinionReply::busy(BUSY),
            Err(NoAnswer::Refused(why)) => {
                tracing::debug!("minion {id}: a request about files is refused: {why}");
                MinionReply::Files(FileReply::Refused(why))
            }
        }
    }

    async fn carry_out(&self, id: &MinionId, request: FileRequest) -> Result<FileReply, NoAnswer> {
        let served = self.settings.files();
        match request {
            FileRequest::Environments => {
                let names = served.readable_by(id).map(str::to_owned);
                Ok(FileReply::Environments(names.collect()))
            }
            FileRequest::List {
                environment,
                below,
                after,
                bytes,
            } => {
                let roots = served.roots_for(id, &environment)?;
                let below = inner_path(&below)?;
                let listing = self
                    .listings
                    .of(&served, &environment, roots, below)
                    .await?;
                Ok(FileReply::Listed(listing.page(after.as_deref(), bytes)))
            }
            FileRequest::Look(place) => {
                let (roots, path) = self.locate(&served, id, &place)?;
                Ok(FileReply::Seen(self.reader.look(id, roots, path).await?))
            }
            FileRequest::Part {
                place,
                transfer,
                offset,
                bytes,
            } => {
                let (roots, path) = self.locate(&served, id, &place)?;
                let most = SendingWindow::part_size(bytes);
                let room = self.window.room_for(id, most).await.ok_or(NoAnswer::Busy)?;
                let part = self
                    .reader
                    .part(roots, path, transfer, offset, most)
                    .await?;
                let Some(part) = part else {
                    return Ok(FileReply::Changed);
                };
                self.figures.count_sent(part.bytes.len());
                room.sent(part.bytes.len());
                Ok(FileReply::Part(part))
            }
            FileRequest::Push { path, part } => {
                if !served.receive {
                    return Err(FileRefusal::NotTaken.into());
                }
                let path = inner_path(&path)?;
                let received = self.pushed.take(id, path, part, served.receive_max).await?;
                Ok(FileReply::Received(received))
            }
        }
    }

    /// Returns the roots and the path of a file that a minion may read.
    fn locate(
        &self,
        served: &ServedFiles,
        id: &MinionId,
        place: &FilePlace,
    ) -> Result<(Vec<PathBuf>, InnerPath), FileRefusal> {
        match place.environment == UPLOADS_ENVIRONMENT {
            true => Ok((
                vec![self.uploads.folder().to_owned()],
                upload_folders::path(&place.path)?,
            )),
            false => Ok((
                served.roots_for(id, &place.environment)?.to_vec(),
                served.path(&place.path)?,
            )),
        }
    }

    /// Begins an upload of this many files and bytes.
    ///
    /// # Errors
    /// When there is no room for it.
    ///
    /// # Cancel safety
    /// The upload may be begun all the same.
    pub(crate) async fn begin_upload(
        &self,
        owner: String,
        id: UploadId,
        files: u32,
        bytes: u64,
    ) -> Result<(), UploadError> {
        self.uploads.begin(owner, id, files, bytes).await
    }

    /// Takes a part of a file of an upload, and returns how many bytes of the file are there.
    ///
    /// # Errors
    /// When the part is not of the upload that was announced, and when it cannot be written.
    ///
    /// # Cancel safety
    /// A write that was begun is finished.
    pub(crate) async fn take_upload(
        &self,
        owner: &str,
        id: UploadId,
        number: u32,
        part: Part,
    ) -> Result<u64, UploadError> {
        self.uploads.take(owner, id, number, part).await
    }

    /// Removes an upload.
    ///
    /// # Errors
    /// When it is somebody else's, or cannot be removed.
    ///
    /// # Cancel safety
    /// The upload may be removed all the same.
    pub(crate) async fn end_upload(&self, owner: &str, id: UploadId) -> Result<(), UploadError> {
        self.uploads.end(owner, id).await
    }

    /// Removes the uploads that nobody has removed in time.
    ///
    /// # Cancel safety
    /// The removal goes on.
    pub(crate) async fn remove_expired_uploads(&self) {
        self.uploads.remove_expired().await;
    }

    /// Returns the listing of an environment for an operator, whom no rule keeps from any.
    ///
    /// # Errors
    /// When there is no such environment, or it cannot be listed.
    pub(crate) async fn listing(
        &self,
        environment: &str,
    ) -> Result<Arc<EnvironmentListing>, FileRefusal> {
        let served = self.settings.files();
        let roots = served
            .roots(environment)
            .ok_or(FileRefusal::NoEnvironment)?;
        let below = InnerPath::root();
        loop {
            match self
                .listings
                .of(&served, environment, roots, below.clone())
                .await
            {
                Ok(listing) => return Ok(listing),
                Err(NoAnswer::Busy) => {}
                Err(NoAnswer::Refused(why)) => return Err(why),
            }
        }
    }

    /// Forgets all listings and hashes, and returns how many listings there were.
    pub(crate) fn forget(&self) -> usize {
        self.reader.forget();
        self.listings.forget()
    }
}
