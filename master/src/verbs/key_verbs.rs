//! The verbs that list and change the keys of minions.

use std::sync::Arc;

use saline_protocol::channel::PublicIdentity;
use saline_protocol::message::{KeyReply, KeyRequest, OfferState, OperatorReply, decode, encode};

use crate::events::Events;
use crate::jobs::{Committed, JobStore, StoreError};
use crate::keys::{KeyAccess, KeyChange};
use crate::publisher::MinionPublisher;
use crate::sessions::Sessions;

/// Lists and changes the keys of minions.
#[derive(Debug)]
pub struct KeyVerbs {
    /// The master's own identity.
    pub(crate) master: PublicIdentity,
    pub(crate) keys: KeyAccess,
    /// Keeps the outcomes of requests, so that a repeated request acts once.
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) publisher: MinionPublisher,
    pub(crate) events: Events,
}

impl KeyVerbs {
    /// Carries out the request of the operator `name`.
    pub(super) async fn carry_out(
        &self,
        name: &str,
        request: KeyRequest,
    ) -> Result<OperatorReply, StoreError> {
        let request_id = match &request {
            KeyRequest::List => None,
            KeyRequest::Act { request_id, .. } => Some(*request_id),
        };
        // A repeated request is answered with the reply to the first one.
        if let Some(id) = request_id
            && let Some(earlier) = self.jobs.outcome(id)
            && let Ok(reply) = decode(&earlier)
        {
            return Ok(reply);
        }
        let applied = self.keys.with_minions(move |keys| keys.apply(&request));
        let Some(applied) = applied.await else {
            return Ok(OperatorReply::Failed("the key store failed".to_owned()));
        };
        // Also after an error: the changes made before it stand.
        self.follow(name, &applied.changes).await;
        if let Some(error) = applied.error {
            return Ok(OperatorReply::Failed(error.to_string()));
        }
        let reply = OperatorReply::Keys(KeyReply {
            keys: applied.keys,
            master: self.master.0,
            duplicates: self.sessions.duplicates(),
        });
        let Some(request_id) = request_id else {
            return Ok(reply);
        };
        match self.jobs.record_outcome(request_id, encode(&reply)).await {
            // The same request came twice at once, and the other one recorded its reply first.
            Ok(Committed::Before(earlier)) => Ok(decode(&earlier).unwrap_or(reply)),
            Ok(Committed::Now) => Ok(reply),
            Err(error) => {
                // The keys are changed; only a repeated request would get another reply.
                tracing::error!("the outcome of a change of keys was not recorded: {error}");
                Ok(reply)
            }
        }
    }

    /// Fires an event for each change. Ends the sessions of minions that are no longer accepted, and
    /// rotates the group key that they know.
    async fn follow(&self, name: &str, changes: &[KeyChange]) {
        let mut rotate = false;
        for change in changes {
            let (act, id) = (change.act(), &change.id);
            tracing::info!("operator {name}: {act} key of minion {id}");
            self.events.key(id, act).await;
            if change.ends_sessions() {
                // The minion may have no session and know the group key all the same.
                rotate = true;
                self.sessions.end_minion(id);
                for jid in self.jobs.withdraw(id) {
                    tracing::info!("job {jid}: withdrawn from minion {id}");
                    self.events.job_state(&jid, id, OfferState::Withdrawn).await;
                }
            }
        }
        if rotate {
            self.publisher.rotate(self.sessions.all_alive()).await;
        }
    }
}
