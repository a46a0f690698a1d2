//! Takes back what a minion had whose key is no longer accepted: its sessions, its open offers, and the
//! group key that it knows.

use std::sync::Arc;

use saline_protocol::channel::PublicIdentity;
use saline_protocol::message::{MinionId, OfferState};

use crate::events::Events;
use crate::jobs::JobStore;
use crate::publisher::MinionPublisher;
use crate::sessions::Sessions;

/// Takes back what minions had.
#[derive(Debug)]
pub struct Revocation {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) publisher: MinionPublisher,
    pub(crate) events: Events,
}

impl Revocation {
    /// Ends the sessions of these minions, except those with the key that is accepted now, and their open
    /// offers, so that another machine does not inherit them with the id. Then rotates the group key: a
    /// minion without a session may know it all the same.
    ///
    /// # Cancel safety
    /// When the future is dropped the sessions may have ended without a rotation.
    pub async fn revoke(&self, minions: &[(MinionId, Option<[u8; 32]>)]) {
        if minions.is_empty() {
            return;
        }
        for (id, accepted) in minions {
            self.sessions.end_minion(id, accepted.map(PublicIdentity));
            for jid in self.jobs.withdraw(id) {
                tracing::info!("job {jid}: withdrawn from minion {id}");
                self.events.job_state(&jid, id, OfferState::Withdrawn).await;
            }
        }
        self.publisher.rotate(self.sessions.all_alive()).await;
    }
}
