//! The files of the master, for functions: they run on threads that may block.
//!
//! [`MasterFiles`] asks the master one thing. `JobContext::ask_about_files` asks until there is an answer, across new
//! sessions and restarts of the master; `fetch` brings a file into the cache, and goes on where an earlier attempt, also
//! of an earlier process, has ended. Scripts and templates of the master go through the same cache.

mod cache;
mod fetch;
mod listing;
mod master_script;
mod salt_url;
mod templates;

use std::fmt;
use std::time::Duration;

use saline_config::BASE;
use saline_functions::Failure;
use saline_messages::{FileRefusal, FileReply, FileRequest};

use crate::JobContext;
use crate::pending_answer::PendingAnswer;
pub(crate) use cache::FileCache;
pub(crate) use fetch::{fetch, look, read};
pub(crate) use listing::{list, list_names};
pub(crate) use master_script::{MAX_SCRIPT, MasterScript};
pub(crate) use salt_url::SaltUrl;
pub(crate) use templates::{TemplateEngine, render};

/// How long a function waits for a master that is away.
const AWAY: Duration = Duration::from_secs(10 * 60);

/// How long one answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Asks the master about files. The minion's process has it; a function that asks has to run in that process.
pub trait MasterFiles: fmt::Debug + Send + Sync {
    /// Sends a request, which may wait for its answer at most so long. Returns at once.
    fn send(&self, request: FileRequest, within: Duration) -> PendingAnswer<FileReply>;

    /// Returns the size of the next part of a file in bytes, which follows the speed of the link.
    fn part_size(&self) -> u32;
}

/// Returns the failure of a request that the master refused, which says what the request was about.
fn refused(request: &FileRequest, why: FileRefusal) -> Failure {
    let about = match request {
        FileRequest::List {
            environment, below, ..
        } => Some((environment, below)),
        FileRequest::Look(place) | FileRequest::Part { place, .. } => {
            Some((&place.environment, &place.path))
        }
        FileRequest::Environments | FileRequest::Push { .. } => None,
    };
    Failure::Execution(match (about, why) {
        (None, _) => why.to_string(),
        (Some((environment, _)), FileRefusal::NoEnvironment) => {
            format!("environment {environment:?}: {why}; cp.envs shows those that it may read")
        }
        (Some((environment, path)), _) if environment == BASE => format!("salt://{path}: {why}"),
        (Some((environment, path)), _) => format!("salt://{path}?saltenv={environment}: {why}"),
    })
}

impl JobContext<'_> {
    /// Asks the master until there is an answer.
    ///
    /// # Errors
    /// When the master refuses the request or is away for ten minutes, when the minion stops or the job is ended, and
    /// outside of the minion's process.
    pub(crate) fn ask_about_files(&self, request: &FileRequest) -> Result<FileReply, Failure> {
        match self.ask_or_refused(request)? {
            FileReply::Refused(why) => Err(refused(request, why)),
            reply => Ok(reply),
        }
    }

    /// Asks as [`ask_about_files`](Self::ask_about_files) does, and returns a refusal as an answer.
    pub(crate) fn ask_or_refused(&self, request: &FileRequest) -> Result<FileReply, Failure> {
        let first = self.send_about_files(request.clone())?;
        self.answer_or_again(first, request)
    }

    /// Sends a request whose answer is waited for later, with [`answer_or_again`](Self::answer_or_again).
    fn send_about_files(&self, request: FileRequest) -> Result<PendingAnswer<FileReply>, Failure> {
        Ok(self.master_files()?.send(request, ANSWER_TIMEOUT))
    }

    fn answer_or_again(
        &self,
        first: PendingAnswer<FileReply>,
        request: &FileRequest,
    ) -> Result<FileReply, Failure> {
        let files = self.master_files()?;
        let again = || files.send(request.clone(), ANSWER_TIMEOUT);
        self.host.answer_or_again(self.job, AWAY, first, again)
    }

    fn master_files(&self) -> Result<&dyn MasterFiles, Failure> {
        self.host
            .master_files
            .get()
            .map(AsRef::as_ref)
            .ok_or_else(|| {
                Failure::Execution(
                    "files of the master come through the running minion: ask it with `saline`"
                        .to_owned(),
                )
            })
    }
}

impl JobContext<'_> {
    /// Returns the bytes of the next part that is handed in at the master.
    ///
    /// # Errors
    /// Outside of the minion's process.
    pub(crate) fn push_part_size(&self) -> Result<usize, Failure> {
        let size = usize::try_from(self.master_files()?.part_size());
        Ok(size.unwrap_or(usize::MAX).min(self.host.max_payload()))
    }
}
