//! Asks the master about files, the pillar and the mine, for functions that run on threads and for the minion itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_messages::{
    Class, FileReply, FileRequest, MineReply, MineRequest, MinionReply, MinionRequest, PillarReply,
    PillarRequest,
};
use saline_modules::master_files::MasterFiles;
use saline_modules::mine::MasterMine;
use saline_modules::pillar::MasterPillar;
use saline_modules::{NotAnswered, PendingAnswer};
use saline_protocol::transport::{Context, ErrorKind, jitter};
use tokio::sync::oneshot;

use super::session_loop::RETRY_DELAY;
use crate::link::current_session::CurrentSession;
use crate::link::message_size::MessageSize;
use crate::link::minion_session::AskError;

/// The most bytes of a part or of a page, as the master sends them.
const LARGEST_PART: usize = 256 * 1024;

/// How long a function waits before it asks again while there is no session.
const AWAY_DELAY: Duration = Duration::from_secs(1);

/// Asks over the accepted session of now.
#[derive(Debug, Clone)]
pub(crate) struct MasterRequests {
    session: CurrentSession,
    context: Context,
    size: Arc<Mutex<MessageSize>>,
}

impl MasterRequests {
    /// Creates the way to the master of this session and of those that follow it.
    pub(crate) fn new(session: CurrentSession, context: Context) -> Self {
        Self {
            session,
            context,
            size: Arc::new(Mutex::new(MessageSize::new(LARGEST_PART))),
        }
    }

    async fn ask_about_files(
        &self,
        request: FileRequest,
        within: Duration,
    ) -> Result<FileReply, NotAnswered> {
        let is_part = matches!(request, FileRequest::Part { .. } | FileRequest::Push { .. });
        let request = MinionRequest::Files(request);
        match self.ask(Class::File, &request, is_part, within).await? {
            MinionReply::Files(reply) => Ok(reply),
            _ => Err(NotAnswered::wrong_answer()),
        }
    }

    /// Sends a request about the pillar over the session of now.
    ///
    /// # Errors
    /// See [`NotAnswered`].
    pub(super) async fn ask_about_pillar(
        &self,
        request: PillarRequest,
        within: Duration,
    ) -> Result<PillarReply, NotAnswered> {
        // A compilation takes longer, and says nothing of the link.
        let is_part = matches!(request, PillarRequest::Part { .. });
        let request = MinionRequest::Pillar(request);
        match self.ask(Class::Bulk, &request, is_part, within).await? {
            MinionReply::Pillar(reply) => Ok(reply),
            _ => Err(NotAnswered::wrong_answer()),
        }
    }

    async fn ask_about_mine(
        &self,
        request: MineRequest,
        within: Duration,
    ) -> Result<MineReply, NotAnswered> {
        let is_page = matches!(request, MineRequest::Get { .. });
        let request = MinionRequest::Mine(request);
        match self.ask(Class::Bulk, &request, is_page, within).await? {
            MinionReply::Mine(reply) => Ok(reply),
            _ => Err(NotAnswered::wrong_answer()),
        }
    }

    /// Sends a request. Does it bring a part, the time that it takes says how large parts may be.
    async fn ask(
        &self,
        class: Class,
        request: &MinionRequest,
        is_part: bool,
        within: Duration,
    ) -> Result<MinionReply, NotAnswered> {
        let Some(session) = self.session.get() else {
            return Err(NotAnswered::Later(AWAY_DELAY));
        };
        let sent = self.context.clock.now();
        match session.ask(class, request, within).await {
            Ok(reply) => {
                if is_part {
                    self.size().answered_after(self.context.clock.now() - sent);
                }
                Ok(reply)
            }
            Err(error) => {
                if let AskError::Transport(error) = &error {
                    tracing::debug!("no answer to {}: {error}", request.name());
                    if is_part && error.kind() == ErrorKind::TimedOut {
                        self.size().timed_out();
                    }
                }
                Err(not_answered(error))
            }
        }
    }

    /// Has a task wait for an answer.
    fn pending<R: Send + 'static>(
        &self,
        answer: impl Future<Output = Result<R, NotAnswered>> + Send + 'static,
    ) -> PendingAnswer<R> {
        let (sender, receiver) = oneshot::channel();
        let cancel = self.context.cancel.clone();
        self.context.spawn(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                // An error means that nobody waits any more.
                answer = answer => drop(sender.send(answer)),
            }
        });
        PendingAnswer::over(receiver)
    }

    /// Returns the size of the next part in bytes.
    fn bytes(&self) -> u32 {
        u32::try_from(self.size().bytes()).unwrap_or(u32::MAX)
    }

    fn size(&self) -> MutexGuard<'_, MessageSize> {
        self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what a function does that has no answer.
fn not_answered(error: AskError) -> NotAnswered {
    match error {
        AskError::Busy(after) => NotAnswered::Later(after + jitter(after)),
        AskError::Transport(error) if error.kind() != ErrorKind::TooLarge => {
            NotAnswered::Later(RETRY_DELAY)
        }
        AskError::Ended | AskError::NotAuthentic(_) => NotAnswered::Later(AWAY_DELAY),
        error @ (AskError::Transport(_) | AskError::Refused(_) | AskError::Unreadable(_)) => {
            NotAnswered::Refused(error.to_string())
        }
    }
}

impl MasterFiles for MasterRequests {
    fn send(&self, request: FileRequest, within: Duration) -> PendingAnswer<FileReply> {
        let this = self.clone();
        self.pending(async move { this.ask_about_files(request, within).await })
    }

    fn part_size(&self) -> u32 {
        self.bytes()
    }
}

impl MasterPillar for MasterRequests {
    fn send(&self, request: PillarRequest, within: Duration) -> PendingAnswer<PillarReply> {
        let this = self.clone();
        self.pending(async move { this.ask_about_pillar(request, within).await })
    }

    fn part_size(&self) -> u32 {
        self.bytes()
    }
}

impl MasterMine for MasterRequests {
    fn send(&self, request: MineRequest, within: Duration) -> PendingAnswer<MineReply> {
        let this = self.clone();
        self.pending(async move { this.ask_about_mine(request, within).await })
    }

    fn page_size(&self) -> u32 {
        self.bytes()
    }
}
