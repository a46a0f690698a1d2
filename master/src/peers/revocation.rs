//! Revokes minions whose keys are no longer accepted: ends their sessions, withdraws their open offers, and
//! rotates the group key that they know.
//!
//! The job store knows to which key the offers of each minion were made, so a key that was replaced is noticed
//! however that came about: by an operator, by hand, while no master ran, by `open_mode`, or before a crash. Whoever
//! hears of a change has it settled here: several hear of one change, each may be late, and what counts is the key
//! that is accepted when it is settled.

use std::sync::Arc;

use saline_channel::PublicIdentity;
use saline_messages::{Jid, MinionId, MinionJobState};
use tokio::sync::Semaphore;

use crate::bounds::Accounts;
use crate::events::Events;
use crate::grains::GrainsTable;
use crate::jobs::JobStore;
use crate::keys::{KeyAccess, KeyOnDisk};
use crate::mine::Mine;
use crate::pillar::Pillars;
use crate::publisher::MinionPublisher;
use crate::sessions::Sessions;

/// Revokes minions.
#[derive(Debug, Clone)]
pub struct Revocation {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) grains: Arc<GrainsTable>,
    pub(crate) pillars: Pillars,
    pub(crate) mine: Mine,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) keys: KeyAccess,
    pub(crate) publisher: MinionPublisher,
    pub(crate) events: Events,
    /// Has one permit, for whoever compares accepted keys with noted ones.
    pub(crate) turn: Arc<Semaphore>,
}

/// A minion, and the key that is accepted under its id now.
type Revoked = (MinionId, Option<[u8; 32]>);

impl Revocation {
    /// Compares the noted keys of these minions with those that are accepted now. A key that is new is noted, and a
    /// minion is revoked whose key was replaced or is not accepted any more. Returns the minions whose keys cannot
    /// be read now; nothing has changed for them.
    ///
    /// # Cancel safety
    /// As [`revoke`](Self::revoke).
    pub async fn settle(&self, minions: Vec<MinionId>) -> Vec<MinionId> {
        if minions.is_empty() {
            return minions;
        }
        let mut unreadable = Vec::new();
        let withdrawn = {
            let _turn = self.turn.acquire().await;
            let mut revoked = Vec::new();
            for (id, key) in self.keys.keys_on_disk(minions).await {
                match key {
                    KeyOnDisk::Accepted(key) => {
                        if !self.jobs.note_key(&id, key) {
                            tracing::warn!(
                                "minion {id} has a new key: the open jobs of the old one are withdrawn"
                            );
                            revoked.push((id, Some(key)));
                        }
                    }
                    KeyOnDisk::NotAccepted => {
                        if self.jobs.has_key_or_jobs(&id) {
                            revoked.push((id, None));
                        }
                    }
                    KeyOnDisk::Unreadable => unreadable.push(id),
                }
            }
            self.end(&revoked).await
        };
        self.report(withdrawn).await;
        unreadable
    }

    /// Ends the sessions of these minions, except those with the key that is accepted now, and withdraws their
    /// open offers and forgets their grains, pillars, entries of the mine and accounts, so that another machine does not inherit them with the id. Then rotates
    /// the group key: a minion without a session may know it all the same. A key that cannot be read is not
    /// accepted.
    ///
    /// # Cancel safety
    /// When the future is dropped the sessions may have ended without a rotation.
    pub async fn revoke(&self, minions: Vec<MinionId>) {
        if minions.is_empty() {
            return;
        }
        let withdrawn = {
            let _turn = self.turn.acquire().await;
            let keys_on_disk = self.keys.keys_on_disk(minions).await.into_iter();
            let revoked: Vec<Revoked> = keys_on_disk
                .map(|(id, key)| match key {
                    KeyOnDisk::Accepted(key) => (id, Some(key)),
                    KeyOnDisk::NotAccepted | KeyOnDisk::Unreadable => (id, None),
                })
                .collect();
            self.end(&revoked).await
        };
        self.report(withdrawn).await;
    }

    /// Ends the sessions of these minions, whose keys are missing, and rotates the group key. Their offers, grains and
    /// accounts stay: the keys may come back.
    ///
    /// # Cancel safety
    /// As [`revoke`](Self::revoke).
    pub async fn suspend(&self, minions: &[MinionId]) {
        let _turn = self.turn.acquire().await;
        for id in minions {
            self.sessions.end_minion(id, None);
        }
        self.publisher.rotate().await;
    }

    async fn end(&self, minions: &[Revoked]) -> Vec<(Jid, MinionId)> {
        if minions.is_empty() {
            return Vec::new();
        }
        let mut withdrawn = Vec::new();
        for (id, accepted) in minions {
            self.sessions.end_minion(id, accepted.map(PublicIdentity));
            self.grains.forget(id);
            self.pillars.forget(id);
            self.mine.forget_removed(id).await;
            self.accounts.forget(id);
            let jobs = self.jobs.withdraw(id, *accepted).into_iter();
            withdrawn.extend(jobs.map(|jid| (jid, id.clone())));
        }
        self.publisher.rotate().await;
        if let Err(error) = self.jobs.flush_all().await {
            tracing::error!(
                "the withdrawn offers are not on the disk yet, and would be open again after a crash: {error}"
            );
        }
        withdrawn
    }

    /// Tells listeners, who may be slow, when nothing else is left to be done.
    async fn report(&self, withdrawn: Vec<(Jid, MinionId)>) {
        for (jid, id) in withdrawn {
            tracing::info!("job {jid}: withdrawn from minion {id}");
            let withdrawn = MinionJobState::Withdrawn;
            self.events.job_state(&jid, &id, withdrawn).await;
        }
    }
}
