//! Sends events to the master, in their order.

use std::sync::Arc;
use std::time::Duration;

use saline_messages::{Class, MinionEvents, MinionReply, MinionRequest, RefusedVerb};
use saline_protocol::transport::{Clock, ErrorKind, jitter};

use crate::link::current_session::CurrentSession;
use crate::link::minion_session::{AskError, Ended};
use saline_modules::Host;

/// How long the master may take to fire the events of one request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The delay before a request without an answer is repeated.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Sends the events that the parts of a minion fire.
#[derive(Debug)]
pub struct EventSender {
    host: Arc<Host>,
    session: CurrentSession,
    clock: Clock,
}

impl EventSender {
    /// Creates a sender of the host's events.
    pub fn new(host: Arc<Host>, session: CurrentSession, clock: Clock) -> Self {
        Self {
            host,
            session,
            clock,
        }
    }

    /// Sends events for as long as the minion exists. A request is repeated until it is answered; the
    /// master knows by the numbers what it has fired.
    pub async fn run(self) {
        loop {
            let most = self.host.max_payload();
            let (first, events) = self.host.events.next_batch(most).await;
            let count = events.len();
            let request = MinionRequest::FireEvents(MinionEvents {
                start: self.host.events.start_id(),
                first,
                events,
            });
            if !self.deliver(&request).await {
                tracing::warn!(
                    "{count} events were not fired: the master cannot read them, or max_message_size is \
                     too small for them"
                );
            }
        }
    }

    /// Sends a request until it is answered. Returns whether it was carried out.
    async fn deliver(&self, request: &MinionRequest) -> bool {
        let mut sessions = self.session.subscribe();
        loop {
            let session = match sessions.wait_for(Option::is_some).await {
                Ok(session) => session.clone(),
                // Every other part of the minion has ended.
                Err(_) => return false,
            };
            let Some(session) = session else { continue };
            let wait = match session.ask(Class::Event, request, ANSWER_TIMEOUT).await {
                Ok(MinionReply::Done) => return true,
                Err(AskError::Refused(RefusedVerb::Malformed)) => return false,
                Err(AskError::Transport(error)) if error.kind() == ErrorKind::TooLarge => {
                    return false;
                }
                Ok(_) => {
                    session.end(Ended::Lost);
                    RETRY_DELAY
                }
                Err(AskError::Busy(after)) => after,
                Err(error) => {
                    tracing::debug!("events were not taken: {error}");
                    RETRY_DELAY
                }
            };
            self.clock.pause(wait + jitter(wait)).await;
        }
    }
}
