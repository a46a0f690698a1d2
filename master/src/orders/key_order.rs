//! Lists and changes the keys of minions.

use std::sync::Arc;
use std::time::Duration;

use saline_channel::PublicIdentity;
use saline_messages::{
    ApiKeyAction, KeyEntry, KeyReply, KeyRequest, KeyState, MinionId, OperatorReply, OrderWarning,
    decode, encode,
};
use saline_protocol::transport::Clock;

use crate::authorize::{About, Action, Principal};
use crate::decisions::Decisions;
use crate::events::Events;
use crate::jobs::{JobStore, RequestBegin, StoreError};
use crate::keys::{Applied, KeyAccess, KeyChange, describe, named_minions};
use crate::peers::{DeniedPeers, Revocation, WaitingPolls};
use crate::sessions::Sessions;

/// How long the reply to an acceptance waits for the minions that asked for it to be present, so that the next order
/// finds them.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The delay before a request is asked about again that is being carried out.
const UNDER_WAY_DELAY: Duration = Duration::from_millis(200);

/// Returns the reply to a request that was begun before.
fn reply_before(reply: &[u8]) -> OperatorReply {
    decode(reply).unwrap_or_else(|_| {
        OperatorReply::Failed(
            "the master ended after this request had begun, and does not repeat it: look which keys it has changed \
             (saline-key -L), and ask again for what is missing"
                .to_owned(),
        )
    })
}

/// Lists and changes the keys of minions.
#[derive(Debug)]
pub struct KeyOrder {
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

impl KeyOrder {
    /// Carries out the request of a principal, if it may have that.
    pub(crate) async fn carry_out(
        &self,
        principal: &Principal,
        request: KeyRequest,
    ) -> Result<OperatorReply, StoreError> {
        let request_id = match &request {
            // It makes nothing that is there already.
            KeyRequest::List | KeyRequest::RotateIdentity => None,
            KeyRequest::Act { request_id, .. } | KeyRequest::ActOnApis { request_id, .. } => {
                Some(*request_id)
            }
        };
        let warnings = match self.decide(principal, &request).await {
            Ok(warnings) => warnings,
            Err(why) => return Ok(OperatorReply::NotAllowed(why)),
        };
        let mut begun = None;
        if let Some(id) = request_id {
            // A repeated request is answered with the reply to the first one.
            match self.jobs.begin_request(id).await {
                Ok(RequestBegin::Now(now)) => begun = Some(now),
                Ok(RequestBegin::UnderWay) => return Ok(OperatorReply::busy(UNDER_WAY_DELAY)),
                Ok(RequestBegin::Before(reply)) => return Ok(reply_before(&reply)),
                // No failing disk keeps an operator from deleting a key.
                Err(error) => tracing::error!("a change of keys is not noted: {error}"),
            }
        }
        let is_list = request == KeyRequest::List;
        let api_action = match &request {
            KeyRequest::ActOnApis { action, .. } => Some(*action),
            KeyRequest::List | KeyRequest::Act { .. } | KeyRequest::RotateIdentity => None,
        };
        let applied = self.keys.with_minions(move |keys| {
            let missing = if is_list { keys.missing() } else { Vec::new() };
            (keys.apply(&request), missing)
        });
        let Some((applied, missing)) = applied.await else {
            return Ok(OperatorReply::Failed("the key store failed".to_owned()));
        };
        // Also after an error: the changes made before it stand.
        self.follow(principal, &applied.changes).await;
        if let Some(action) = api_action {
            for key in &applied.apis {
                let done = match action {
                    ApiKeyAction::Accept => "accepts the key of",
                    // Its session is refused at its next request.
                    ApiKeyAction::Delete => "deletes the key of",
                };
                tracing::info!("{}: {done} API {}", principal.log_name(), key.id);
            }
        }
        let reply = match applied.error {
            Some(error) => OperatorReply::Failed(error.to_string()),
            None => self.reply(applied, missing, warnings),
        };
        if let Some(begun) = begun
            && let Err(error) = begun.end(encode(&reply)).await
        {
            // The keys are changed; only a request that is repeated after a restart would get another reply.
            tracing::error!("a change of keys was not logged: {error}");
        }
        Ok(reply)
    }

    /// Returns the reply to what was carried out.
    fn reply(
        &self,
        applied: Applied,
        missing: Vec<MinionId>,
        warnings: Vec<OrderWarning>,
    ) -> OperatorReply {
        let mut duplicates = self.sessions.duplicates();
        duplicates.extend(self.denied_beside_accepted(&applied.keys));
        OperatorReply::Keys(KeyReply {
            keys: applied.keys,
            master: self.master.0,
            next_master: applied.next_master,
            duplicates,
            missing,
            apis: applied.apis,
            warnings,
        })
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
            let denied = self.denied.peer(&key.id, key.identity)?;
            let accepted = self.sessions.alive(&key.id)?.peer;
            let addresses = [accepted, denied].map(|peer| peer.to_string());
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
