//! Carries out the heartbeats of minions, and the reconciliation with which each session begins.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use saline_messages::{
    Heartbeat, HeartbeatReply, MAX_ACCOUNTS, MAX_RUNNING, MinionId, MinionJobState, MinionReply,
    Reconciliation, ReconciliationReply,
};

use super::MinionVerbs;
use crate::jobs::{Lineage, ReconcilingStart, StateChange, StoreError};
use crate::sessions::{MinionStart, PresenceChange, Session, SessionState};

/// How long a minion that is present may take to answer when another start of it comes.
const BESIDE_TIMEOUT: Duration = Duration::from_secs(2);

impl MinionVerbs {
    pub(super) async fn heartbeat(
        &self,
        session: &Session,
        id: &MinionId,
        said: Heartbeat,
    ) -> Result<HeartbeatReply, StoreError> {
        let mut running = said.running;
        running.truncate(MAX_RUNNING);
        running.shrink_to_fit();
        // A minion that says it runs more is taken at its word when some of them have ended.
        let may_run = self.accounts.limits().open_jobs;
        let may_begin = self.jobs.may_begin_to_run(id, running.len(), may_run);
        for jid in self.jobs.mark_running(id, &running, may_begin).await? {
            tracing::info!("job {jid}: minion {id} runs it");
            self.events.job_started(&jid, id).await;
        }
        session.set_running(running, said.waiting > 0);
        let has_reconciled = self.sessions.has_reconciled(session);
        let mut unclear = false;
        if has_reconciled {
            self.jobs.take_heartbeats_noted(id, said.heartbeats_noted);
            let changes = self.jobs.take_expiry_ack(id, &said.expiry).await?;
            // It began jobs of which the store does not know whether they run still.
            unclear = changes.iter().any(|(jid, state)| {
                *state == MinionJobState::Running && !session.running().contains(jid)
            });
            self.report(id, changes).await;
        }
        let group = self.publisher.current();
        let now = self.clock.now();
        Ok(HeartbeatReply {
            clock: now,
            heartbeat_ms: self.heartbeat_ms,
            epoch: group.epoch,
            last_all: group.last_number,
            last_own: session.last_own(group.epoch),
            // Looked at after the key was read: whoever deletes the minion's key ends the session first, and
            // then rotates.
            group: (group.epoch != said.epoch && session.state() == SessionState::Accepted)
                .then_some(group),
            lease: self.sessions.grant_lease(session, now),
            expiry_acked_until: self
                .jobs
                .minion_record(id)
                .map_or(0, |record| record.expiry_acked_until),
            cancelled: match has_reconciled {
                true => self.jobs.cancelled_of(id),
                false => Vec::new(),
            },
            reconcile: !has_reconciled || unclear || self.jobs.wants_reconciliation(id),
        })
    }

    /// Takes what a minion says at the start of its session. When it has accounted for everything, it is
    /// present.
    pub(super) async fn reconcile(
        &self,
        session: &Arc<Session>,
        id: &MinionId,
        said: Reconciliation,
    ) -> Result<MinionReply, StoreError> {
        let present = MinionStart {
            start: said.start,
            predecessor_ended: said.predecessor_ended,
        };
        let start = ReconcilingStart {
            start: said.start,
            predecessors: said.predecessors,
            power_lost: said.power_lost,
            beside: self.sessions.lives_beside(id, present) && self.answers(id).await,
            heartbeats_noted: said.heartbeat.heartbeats_noted,
            heartbeats_before: said.heartbeats_before,
        };
        let mut heartbeat = self.heartbeat(session, id, said.heartbeat).await?;
        let changes = self
            .jobs
            .take_accounts(id, Some(&start), &said.accounts)
            .await?;
        self.report(id, changes).await;
        let after = said.accounts.last().map(|account| &account.jid);
        let mut asked = self.jobs.to_account_for(id, &start, after);
        if asked.is_empty() {
            let lineage = self.jobs.lineage(id, &start);
            let was_put_back = self.jobs.was_put_back(id, &start);
            self.jobs.finish_reconciliation(id, &start).await?;
            self.note_lineage(id, lineage, &start, was_put_back);
            let seated_at = self.clock.now();
            let change = self.sessions.seat(session, present);
            self.note_presence(session, id, change, start.beside).await;
            let record = self.jobs.minion_record(id);
            heartbeat.expiry_acked_until = record.map_or(0, |record| record.expiry_acked_until);
            heartbeat.lease = self.sessions.grant_lease(session, self.clock.now());
            heartbeat.reconcile = false;
            if lineage == Lineage::Other {
                let changes = self.jobs.give_up_handed_over(id, seated_at).await?;
                asked = changes.iter().map(|(jid, _)| jid.clone()).collect();
                asked.truncate(MAX_ACCOUNTS);
                self.report(id, changes).await;
            }
        }
        Ok(MinionReply::Reconciled(ReconciliationReply {
            heartbeat,
            asked,
        }))
    }

    /// Whether the minion that is present answers. One that does not is gone: its machine lost power, which ends no
    /// connection, and has started again.
    async fn answers(&self, id: &MinionId) -> bool {
        let Some(present) = self.sessions.seated(id) else {
            return false;
        };
        let mut spoke = pin!(present.spoke());
        spoke.as_mut().enable();
        self.publisher.request_heartbeat(Arc::clone(&present)).await;
        let clock = self.clock.clock();
        let answers = clock.deadline(clock.after(BESIDE_TIMEOUT), spoke).await;
        if answers.is_err() {
            tracing::info!(
                "minion {id} at {} does not answer, and has restarted",
                present.peer
            );
            self.sessions.presume_gone(&present);
        }
        answers.is_ok()
    }

    fn note_lineage(
        &self,
        id: &MinionId,
        lineage: Lineage,
        start: &ReconcilingStart,
        was_put_back: bool,
    ) {
        let is_usual = match lineage {
            Lineage::Known => !was_put_back,
            Lineage::New | Lineage::Continued => !start.power_lost && !was_put_back,
            Lineage::Other => false,
        };
        if is_usual || !self.limiter.allows(id) {
            return;
        }
        match lineage {
            Lineage::Known | Lineage::Continued if was_put_back && !start.power_lost => {
                tracing::warn!(
                    "minion {id}: its disk or its memory was put back to an earlier state; of the jobs that it no longer knows, those \
                 that it had begun are shown as \"lost track\" and the others as \"may have run\", and none of them runs again: \
                 look at the minion before you run one again. If nobody restored it, look for a second machine with its key"
                )
            }
            Lineage::New | Lineage::Known | Lineage::Continued => tracing::warn!(
                "minion {id}: its machine lost power, or its spool was damaged, emptied or put back; of the jobs that it no \
                 longer knows, those that it had begun are shown as \"lost track\" and the others as \"may have run\""
            ),
            Lineage::Other if start.predecessors.is_empty() => tracing::warn!(
                "minion {id}: its spool is empty, which was not so before: a new disk, or another machine \
                 with its key"
            ),
            Lineage::Other => tracing::warn!(
                "minion {id}: its spool goes on from an earlier start: a copy of the machine, or a disk that \
                 was restored"
            ),
        }
    }

    async fn note_presence(
        &self,
        session: &Arc<Session>,
        id: &MinionId,
        change: PresenceChange,
        beside: bool,
    ) {
        match change {
            PresenceChange::None => {}
            PresenceChange::Arrived => tracing::info!("minion {id} is connected"),
            PresenceChange::Replaced { old, other_start } => {
                tracing::info!("minion {id} is connected with a new session");
                if beside && other_start {
                    self.presence.report_duplicate(id, &old, session).await;
                    self.presence.rotate_for_duplicate().await;
                }
            }
        }
    }

    /// Reports a request in a session that was replaced, when the session in its place belongs to another
    /// start of the minion: two machines use one id.
    pub async fn report_replaced(&self, session: &Session) {
        let Some(id) = session.principal.minion() else {
            return;
        };
        if let Some(seated) = self.sessions.seated_other_start(session) {
            self.presence.report_duplicate(id, session, &seated).await;
        }
    }

    /// Logs changes of states, and fires their events.
    pub(super) async fn report(&self, id: &MinionId, changes: Vec<StateChange>) {
        for (jid, state) in changes {
            tracing::info!("job {jid}: minion {id}: {}", state.name());
            match state {
                MinionJobState::Running => self.events.job_started(&jid, id).await,
                MinionJobState::Expired => self.events.jobs_expired(&[(jid, id.clone())]).await,
                state => self.events.job_state(&jid, id, state).await,
            }
        }
    }
}

#[cfg(test)]
mod tests;
