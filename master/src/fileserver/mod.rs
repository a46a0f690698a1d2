//! The files that the master serves: `salt://` of the environments in `file_roots`, and those that minions hand in.
//!
//! Every file is opened beneath a root ([`saline_jailed_files`]), in threads for blocking work, few at a time. A file is
//! known by its version (device, inode, size and times), under which its hash is kept in memory; a part is read only
//! while the file has the version whose hash the minion was told. What is on its way to minions is bounded
//! ([`SendingWindow`]), so that files delay nothing else, however many minions ask for them at once.

mod figures;
mod hashes;
mod listings;
mod pushed;
mod reader;
mod sending_window;
mod served;
#[cfg(test)]
mod tests;
mod under_way;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use saline_config::MasterConfig;
use saline_messages::{FilePlace, FileRefusal, FileReply, FileRequest, MinionId, MinionReply};
use saline_protocol::transport::Context;
use tokio::sync::Semaphore;

use crate::settings::LiveSettings;
pub(crate) use figures::FileFigures;
use hashes::Hashes;
pub(crate) use listings::EnvironmentListing;
use listings::Listings;
use pushed::PushedFiles;
use reader::Reader;
use sending_window::SendingWindow;
pub(crate) use served::ServedFiles;
use under_way::UnderWay;

/// How long a minion is asked to wait for a hash or a listing that is being made, or for its turn.
const BUSY: Duration = Duration::from_millis(500);

/// How long a request waits before the minion is asked to come again.
const WAIT: Duration = Duration::from_secs(8);

/// The most requests of all minions that wait at once: a quarter of what a transport hands out unanswered, so that files
/// never keep heartbeats and returns from being read.
const MOST_AT_ONCE: usize = 4096;

/// Serves files. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct FileServer {
    settings: LiveSettings,
    reader: Arc<Reader>,
    listings: Arc<Listings>,
    pushed: Arc<PushedFiles>,
    window: Arc<SendingWindow>,
    under_way: Arc<UnderWay>,
    /// One permit for each request that may wait.
    places: Arc<Semaphore>,
    figures: Arc<FileFigures>,
}

/// The reason why a request has no answer yet.
#[derive(Debug)]
enum NoAnswer {
    /// The minion is to ask again.
    Busy,
    Refused(FileRefusal),
}

impl From<FileRefusal> for NoAnswer {
    fn from(why: FileRefusal) -> Self {
        Self::Refused(why)
    }
}

impl FileServer {
    /// Creates a server of the files that the settings name.
    pub(crate) fn new(config: &MasterConfig, settings: LiveSettings, context: &Context) -> Self {
        let figures = Arc::new(FileFigures::default());
        let received: PathBuf = config.paths.cache_dir.join("minions");
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
            window: Arc::new(SendingWindow::new(context.clock)),
            under_way: Arc::default(),
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
    /// A hash, a listing or a write that was begun is finished.
    pub(crate) async fn answer(&self, id: &MinionId, request: FileRequest) -> MinionReply {
        self.figures.count_request();
        let (Some(_under_way), Ok(_place)) = (self.under_way.begin(id), self.places.try_acquire())
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
                let below = served::inner_path(&below)?;
                let listing = self
                    .listings
                    .of(&served, &environment, roots, below)
                    .await?;
                Ok(FileReply::Listed(listing.page(after.as_deref(), bytes)))
            }
            FileRequest::Look(FilePlace { environment, path }) => {
                let roots = served.roots_for(id, &environment)?.to_vec();
                let path = served.path(&path)?;
                Ok(FileReply::Seen(self.reader.look(roots, path).await?))
            }
            FileRequest::Part {
                place,
                transfer,
                offset,
                bytes,
            } => {
                let roots = served.roots_for(id, &place.environment)?.to_vec();
                let path = served.path(&place.path)?;
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
                self.window.sent(id, room);
                Ok(FileReply::Part(part))
            }
            FileRequest::Push { path, part } => {
                if !served.receive {
                    return Err(FileRefusal::NotTaken.into());
                }
                let path = served::inner_path(&path)?;
                let received = self.pushed.take(id, path, part, served.receive_max).await?;
                Ok(FileReply::Received(received))
            }
        }
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
        let below = saline_jailed_files::InnerPath::root();
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
