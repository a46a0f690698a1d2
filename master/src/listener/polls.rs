//! Carries out the polls of sessions whose keys wait. Each poll reads files, and only one at a time does so over all
//! sessions, so the number of polls is bounded for each session and for all. Between its two looks at the keys a poll
//! waits for an operator, without a place among those that read.

use std::sync::Arc;

use saline_messages::{Admission, MinionReply};

use super::{BUSY_DELAY, Listener};
use crate::bounds::Turns;
use crate::keys::KeysUnreadable;
use crate::sessions::Session;

/// The largest number of polls that read the keys at once. Each takes a thread, and waits there for the one before it.
const AT_ONCE: usize = 16;

/// The largest number of polls that wait for their turn to read the keys.
const WAITING: usize = 256;

/// Returns the turns of all polls.
pub(super) fn turns() -> Turns {
    Turns::new(AT_ONCE, WAITING)
}

impl Listener {
    /// Answers the poll of a session whose key was not accepted: when an operator has decided about the key, or
    /// after a few seconds, unless the session polls too often or too many do.
    pub(super) async fn poll(&self, session: &Arc<Session>) -> MinionReply {
        let handlers = &self.handlers;
        if let Err(delay) = session.take_poll(handlers.clock.now()) {
            return MinionReply::busy(delay);
        }
        let id = session.principal.minion();
        // Taken first, so that no decision after the lookup is missed.
        let place = id.and_then(|id| {
            handlers
                .waiting
                .take_place(id, session.identity.0, session.peer.source)
        });
        let told = self.decide_if_possible(session).await;
        let Some(place) = place.filter(|_| told == MinionReply::Auth(Admission::Pending(None)))
        else {
            return told;
        };
        tracing::debug!("{} waits for an operator", session.principal);
        place.decided().await;
        if place.is_deleted() {
            // A minion that is still there presents its key again with the next poll.
            return MinionReply::Auth(Admission::Pending(None));
        }
        self.decide_if_possible(session).await
    }

    /// Decides again about a session, unless too many polls wait for their turn to read the keys.
    async fn decide_if_possible(&self, session: &Arc<Session>) -> MinionReply {
        let Some(_turn) = self.handlers.polls.take(session.peer.source).await else {
            return MinionReply::busy(BUSY_DELAY);
        };
        MinionReply::Auth(self.decide_again(session).await)
    }

    async fn decide_again(&self, session: &Arc<Session>) -> Admission {
        let decided = self.handlers.admission.decide_again(session).await;
        // The welcome is made before the key is looked up again: see `Listener::add` in `handshakes.rs`.
        let told = self.tell(&session.principal, decided, session.version.protocol);
        if told.is_accepted() {
            self.handlers.sessions.accept(session);
            match self.still_accepted(session).await {
                Ok(true) => {}
                Ok(false) => return Admission::Rejected,
                Err(KeysUnreadable) => return Admission::Full,
            }
        }
        told
    }
}
