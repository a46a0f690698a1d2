//! The verbs that list and change the keys of minions.

use std::sync::Arc;
use std::time::Duration;

use saline_channel::PublicIdentity;
use saline_messages::{
    KeyEntry, KeyReply, KeyRequest, KeyState, MinionId, OperatorReply, OrderWarning, decode, encode,
};
use saline_protocol::transport::Clock;

use crate::authorize::{About, Action, Principal};
use crate::decisions::Decisions;
use crate::events::Events;
use crate::jobs::{CarriedOut, JobStore, StoreError};
use crate::keys::{KeyAccess, KeyChange, describe, named_minions};
use crate::peers::{DeniedPeers, Revocation, WaitingPolls};
use crate::sessions::Sessions;

/// How long the reply to an acceptance waits for the minions that asked for it to be present, so that the next order
/// finds them.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Lists and changes the keys of minions.
#[derive(Debug)]
pub struct KeyVerbs {
    /// The master's own identity.
    pub(crate) master: PublicIdentity,
    pub(crate) decisions: Decisions,
    pub(crate) keys: KeyAccess,
    /// Keeps the log of requests, so that a repeated request acts once.
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) clock: Clock,
    pub(crate) polls: WaitingPolls,
    pub(crate) denied: DeniedPeers,
    pub(crate) revocation: Revocation,
    pub(crate) events: Events,
}

impl KeyVerbs {
    /// Carries out the request of a principal, if it may have that.
    pub(crate) async fn carry_out(
        &self,
        principal: &Principal,
        request: KeyRequest,
    ) -> Result<OperatorReply, StoreError> {
        let request_id = match &request {
            // It makes nothing that is there already.
            KeyRequest::List | KeyRequest::RotateIdentity => None,
            KeyRequest::Act { request_id, .. } => Some(*request_id),
        };
        let warnings = match self.decide(principal, &request).await {
            Ok(warnings) => warnings,
            Err(why) => return Ok(OperatorReply::NotAllowed(why)),
        };
        // A repeated request is answered with the reply to the first one.
        if let Some(id) = request_id
            && let Some(earlier) = self.jobs.logged_reply(id)
            && let Ok(reply) = decode(&earlier)
        {
            return Ok(reply);
        }
        let is_list = request == KeyRequest::List;
        let applied = self.keys.with_minions(move |keys| {
            let missing = if is_list { keys.missing() } else { Vec::new() };
            (keys.apply(&request), missing)
        });
        let Some((applied, missing)) = applied.await else {
            return Ok(OperatorReply::Failed("the key store failed".to_owned()));
        };
        // Also after an error: the changes made before it stand.
        self.follow(principal, &applied.changes).await;
        if let Some(error) = applied.error {
            return Ok(OperatorReply::Failed(error.to_string()));
        }
        let mut duplicates = self.sessions.duplicates();
        duplicates.extend(self.denied_beside_accepted(&applied.keys));
        let reply = OperatorReply::Keys(KeyReply {
            keys: applied.keys,
            master: self.master.0,
            next_master: applied.next_master,
            duplicates,
            missing,
            warnings,
        });
        let Some(request_id) = request_id else {
            return Ok(reply);
        };
        match self.jobs.log_request(request_id, encode(&reply)).await {
            // The same request came twice at once, and the other one recorded its reply first.
            Ok(CarriedOut::Before(earlier)) => Ok(decode(&earlier).unwrap_or(reply)),
            Ok(CarriedOut::Now) => Ok(reply),
            Err(error) => {
                // The keys are changed; only a repeated request would get another reply.
                tracing::error!("a change of keys was not logged: {error}");
                Ok(reply)
            }
        }
    }

    /// Decides about a request. What changes keys has a line in the audit file. Returns what the operator is warned of.
    async fn decide(
        &self,
        principal: &Principal,
        request: &KeyRequest,
    ) -> Result<Vec<OrderWarning>, String> {
        let action = Action::of_keys(request);
        if *request == KeyRequest::List {
            let authorizer = &self.decisions.authorizer;
            let decided = authorizer.authorize(principal, action, About::Nothing);
            return decided.map(|_| Vec::new()).map_err(|refusal| refusal.line);
        }
        let minions = named_minions(request);
        let details = describe(request, &minions);
        let decided = self
            .decisions
            .decide(principal, action, About::Nothing, details);
        Ok(decided.await?.synced().await)
    }

    /// Returns the addresses of those who presented the denied keys, after those of the minions with these ids.
    fn denied_beside_accepted(&self, keys: &[KeyEntry]) -> Vec<(MinionId, Vec<String>)> {
        let denied = keys.iter().filter(|key| key.state == KeyState::Denied);
        let addresses = denied.filter_map(|key| {
            let denied = self.denied.address(&key.id, key.identity)?;
            let accepted = self.sessions.alive(&key.id)?.peer.address?;
            let addresses = [accepted, denied].map(|address| address.to_string());
            Some((key.id.clone(), addresses.to_vec()))
        });
        addresses.collect()
    }

    /// Fires an event for each change, and revokes what minions had that are no longer accepted.
    async fn follow(&self, principal: &Principal, changes: &[KeyChange]) {
        let (mut revoked, mut accepted) = (Vec::new(), Vec::new());
        let mut arriving = Vec::new();
        for change in changes {
            let (act, id) = (change.act(), &change.id);
            tracing::info!("{}: {act} key of minion {id}", principal.log_name());
            self.denied.forget(id);
            self.events.key(principal.event_origin(), id, act).await;
            if change.ends_sessions() {
                revoked.push(id.clone());
            } else if change.to == Some(KeyState::Accepted) {
                accepted.push(id.clone());
            }
        }
        self.revocation.revoke(revoked).await;
        // The watch does so too, a moment later: jobs may be offered before.
        let _ = self.revocation.settle(accepted).await;
        for change in changes {
            if change.to.is_none() {
                self.polls.deleted(&change.id, change.identity);
            } else if self.polls.decided(&change.id, change.identity)
                && change.to == Some(KeyState::Accepted)
            {
                arriving.push(change.id.clone());
            }
        }
        let deadline = self.clock.after(ARRIVAL_TIMEOUT);
        self.sessions.wait_for(arriving, self.clock, deadline).await;
    }
}
