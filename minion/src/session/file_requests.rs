//! Asks the master about files, for functions that run on threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_messages::{Class, FileReply, FileRequest, MinionReply, MinionRequest};
use saline_modules::master_files::MasterFiles;
use saline_modules::{NotAnswered, PendingAnswer};
use saline_protocol::transport::{Context, ErrorKind, jitter};
use tokio::sync::oneshot;

use super::session_loop::RETRY_DELAY;
use crate::link::current_session::CurrentSession;
use crate::link::message_size::MessageSize;
use crate::link::minion_session::AskError;

/// The most bytes of a part, as the master sends them.
const LARGEST_PART: usize = 256 * 1024;

/// How long a function waits before it asks again while there is no session.
const AWAY_DELAY: Duration = Duration::from_secs(1);

/// Asks over the accepted session of now.
#[derive(Debug, Clone)]
pub(crate) struct FileRequests {
    session: CurrentSession,
    context: Context,
    size: Arc<Mutex<MessageSize>>,
}

impl FileRequests {
    /// Creates the way to the master of this session and of those that follow it.
    pub(crate) fn new(session: CurrentSession, context: Context) -> Self {
        Self {
            session,
            context,
            size: Arc::new(Mutex::new(MessageSize::new(LARGEST_PART))),
        }
    }

    async fn ask(&self, request: FileRequest, within: Duration) -> Result<FileReply, NotAnswered> {
        let Some(session) = self.session.get() else {
            return Err(NotAnswered::Later(AWAY_DELAY));
        };
        let is_part = matches!(request, FileRequest::Part { .. } | FileRequest::Push { .. });
        let request = MinionRequest::Files(request);
        let sent = self.context.clock.now();
        match session.ask(Class::File, &request, within).await {
            Ok(MinionReply::Files(reply)) => {
                if is_part {
                    self.size().answered_after(self.context.clock.now() - sent);
                }
                Ok(reply)
            }
            Err(error) => {
                if let AskError::Transport(error) = &error {
                    tracing::debug!("no answer about a file: {error}");
                    if is_part && error.kind() == ErrorKind::TimedOut {
                        self.size().timed_out();
                    }
                }
                Err(not_answered(error))
            }
            Ok(_) => Err(NotAnswered::Refused(
                "the master gave an answer to another question".to_owned(),
            )),
        }
    }

    fn size(&self) -> MutexGuard<'_, MessageSize> {
        self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what a function does that has no answer.
pub(super) fn not_answered(error: AskError) -> NotAnswered {
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

impl MasterFiles for FileRequests {
    fn send(&self, request: FileRequest, within: Duration) -> PendingAnswer<FileReply> {
        let (sender, receiver) = oneshot::channel();
        let this = self.clone();
        self.context.spawn(async move {
            tokio::select! {
                biased;
                () = this.context.cancel.cancelled() => {}
                // An error means that nobody waits any more.
                answer = this.ask(request, within) => drop(sender.send(answer)),
            }
        });
        PendingAnswer::over(receiver)
    }

    fn part_size(&self) -> u32 {
        u32::try_from(self.size().bytes()).unwrap_or(u32::MAX)
    }
}
