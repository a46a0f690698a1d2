//! Revokes minions whose keys are no longer accepted: ends their sessions, withdraws their open offers, and
//! rotates the group key that they know.
//!
//! The job store knows to which key the offers of each minion were made, so a key that was replaced is noticed
//! however that came about: by an operator, by hand, while no master ran, by `open_mode`, or before a crash.

use std::sync::Arc;

use saline_protocol::channel::PublicIdentity;
use saline_protocol::message::{MinionId, OfferState};

use crate::events::Events;
use crate::grains::GrainsTable;
use crate::jobs::JobStore;
use crate::publisher::MinionPublisher;
use crate::sessions::Sessions;

/// Revokes minions.
#[derive(Debug, Clone)]
pub struct Revocation {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) grains: Arc<GrainsTable>,
    pub(crate) publisher: MinionPublisher,
    pub(crate) events: Events,
}

impl Revocation {
    /// Ends the sessions of these minions, except those with the key that is accepted now, and withdraws their
    /// open offers and forgets their grains, so that another machine does not inherit them with the id. Then rotates the group key: a
    /// minion without a session may know it all the same.
    ///
    /// # Cancel safety
    /// When the future is dropped the sessions may have ended without a rotation.
    pub async fn revoke(&self, minions: &[(MinionId, Option<[u8; 32]>)]) {
        if minions.is_empty() {
            return;
        }
        let mut withdrawn = Vec::new();
        for (id, accepted) in minions {
            self.sessions.end_minion(id, accepted.map(PublicIdentity));
            self.grains.forget(id);
            let jobs = self.jobs.withdraw(id, *accepted).into_iter();
            withdrawn.extend(jobs.map(|jid| (jid, id)));
        }
        self.publisher.rotate().await;
        if let Err(error) = self.jobs.flush_all().await {
            tracing::error!(
                "the withdrawn offers are not on the disk yet, and would be open again after a crash: {error}"
            );
        }
        // Listeners may be slow: they are told when nothing is left to be done.
        for (jid, id) in withdrawn {
            tracing::info!("job {jid}: withdrawn from minion {id}");
            self.events.job_state(&jid, id, OfferState::Withdrawn).await;
        }
    }
}
