//! Reports what the master may know already: first its digest, so that the master forgets something else, and all of it when the
//! master asks for it.

use saline_messages::{Class, MinionReply, MinionRequest};
use saline_protocol::transport::jitter;

use super::session_loop::{ANSWER_TIMEOUT, ActiveSession, RETRY_DELAY};
use crate::link::minion_session::{AskError, Ended};

impl ActiveSession {
    /// Sends the `digest` of what the log calls `what`, and `all` of it if the master wants it; `all` is none if it cannot be
    /// sent. Repeats that until the master has answered.
    pub(super) async fn report(
        &self,
        what: &str,
        digest: MinionRequest,
        all: impl Fn() -> Option<MinionRequest>,
    ) {
        let mut request = digest;
        loop {
            let asked = self.session.ask(Class::Event, &request, ANSWER_TIMEOUT);
            let wait = match asked.await {
                Ok(MinionReply::Done) => return,
                Ok(MinionReply::SendAll) => match all() {
                    Some(all) => {
                        request = all;
                        continue;
                    }
                    None => return,
                },
                Ok(_) => return self.session.end(Ended::Lost),
                Err(AskError::Ended) => return,
                Err(AskError::Busy(after)) => after,
                Err(error @ AskError::Refused(_)) => {
                    tracing::warn!("the master does not take the {what}: {error}");
                    return;
                }
                Err(error) => {
                    tracing::debug!("the {what} were not reported: {error}");
                    RETRY_DELAY
                }
            };
            self.parts.context.clock.pause(wait + jitter(wait)).await;
        }
    }
}
