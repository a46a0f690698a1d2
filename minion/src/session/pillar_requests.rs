//! Asks the master for the minion's pillar, for functions that run on threads and for the minion itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_messages::{Class, MinionReply, MinionRequest, PillarReply, PillarRequest};
use saline_modules::pillar::MasterPillar;
use saline_modules::{NotAnswered, PendingAnswer};
use saline_protocol::transport::{Context, ErrorKind};
use tokio::sync::oneshot;

use super::file_requests::not_answered;
use super::session_loop::RETRY_DELAY;
use crate::link::current_session::CurrentSession;
use crate::link::message_size::MessageSize;
use crate::link::minion_session::AskError;

/// The most bytes of a part.
const LARGEST_PART: usize = 256 * 1024;

/// Asks over the accepted session of now.
#[derive(Debug, Clone)]
pub(crate) struct PillarRequests {
    session: CurrentSession,
    context: Context,
    size: Arc<Mutex<MessageSize>>,
}

impl PillarRequests {
    /// Creates the way to the master of this session and of those that follow it.
    pub(crate) fn new(session: CurrentSession, context: Context) -> Self {
        Self {
            session,
            context,
            size: Arc::new(Mutex::new(MessageSize::new(LARGEST_PART))),
        }
    }

    /// Sends a request over the session of now.
    ///
    /// # Errors
    /// See [`NotAnswered`].
    pub(super) async fn ask(
        &self,
        request: PillarRequest,
        within: Duration,
    ) -> Result<PillarReply, NotAnswered> {
        let Some(session) = self.session.get() else {
            return Err(NotAnswered::Later(RETRY_DELAY));
        };
        // A compilation takes longer, and says nothing of the link.
        let is_part = matches!(request, PillarRequest::Part { .. });
        let request = MinionRequest::Pillar(request);
        let sent = self.context.clock.now();
        match session.ask(Class::Bulk, &request, within).await {
            Ok(MinionReply::Pillar(reply)) => {
                if is_part {
                    self.size().answered_after(self.context.clock.now() - sent);
                }
                Ok(reply)
            }
            Ok(_) => Err(NotAnswered::Refused(
                "the master gave an answer to another question".to_owned(),
            )),
            Err(error) => {
                if let AskError::Transport(error) = &error {
                    tracing::debug!("no answer about the pillar: {error}");
                    if error.kind() == ErrorKind::TimedOut {
                        self.size().timed_out();
                    }
                }
                Err(not_answered(error))
            }
        }
    }

    fn size(&self) -> MutexGuard<'_, MessageSize> {
        self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MasterPillar for PillarRequests {
    fn send(&self, request: PillarRequest, within: Duration) -> PendingAnswer<PillarReply> {
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
