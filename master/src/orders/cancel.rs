//! Cancelling a job: what no minion has begun yet ends.

use std::sync::Arc;

use saline_messages::{Jid, MinionJobState, OperatorReply};

use crate::authorize::{About, Action, Principal};
use crate::decisions::{Decisions, Details};
use crate::events::Events;
use crate::jobs::{JobStore, StoreError};
use crate::publisher::MinionPublisher;

/// Cancels jobs.
#[derive(Debug)]
pub struct CancelOrder {
    pub(crate) decisions: Decisions,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) publisher: MinionPublisher,
    pub(crate) events: Events,
}

/// The result of an order to cancel a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// The request is stored.
    Yes,
    /// There is no such job.
    NoSuchJob,
    /// The principal may not cancel it, for this reason.
    NotAllowed(String),
}

impl CancelOrder {
    /// Carries out the request of a principal.
    pub(crate) async fn carry_out(
        &self,
        principal: &Principal,
        jid: &Jid,
    ) -> Result<OperatorReply, StoreError> {
        Ok(match self.cancel(principal, jid).await? {
            Cancelled::Yes => OperatorReply::Cancelling,
            Cancelled::NoSuchJob => OperatorReply::NoSuchJob,
            Cancelled::NotAllowed(why) => OperatorReply::NotAllowed(why),
        })
    }

    /// Cancels a job, if the principal may.
    pub(crate) async fn cancel(
        &self,
        principal: &Principal,
        jid: &Jid,
    ) -> Result<Cancelled, StoreError> {
        let Some(owner) = self.jobs.owner(jid).await? else {
            return Ok(Cancelled::NoSuchJob);
        };
        let details = Details {
            subject: Some(format!("job {jid} of {owner}")),
            ..Details::default()
        };
        let about = About::Owner(&owner);
        let decided = self
            .decisions
            .decide(principal, Action::CancelJob, about, details);
        match decided.await {
            Ok(decided) => decided.synced().await,
            Err(why) => return Ok(Cancelled::NotAllowed(why)),
        }
        let Some(queued) = self.jobs.cancel(jid).await? else {
            return Ok(Cancelled::NoSuchJob);
        };
        tracing::info!("{}: cancelled job {jid}", principal.log_name());
        for id in queued {
            self.events
                .job_state(jid, &id, MinionJobState::Cancelled)
                .await;
        }
        // Minions learn of it with their next heartbeat, and send one now.
        self.publisher.request_heartbeats().await;
        Ok(Cancelled::Yes)
    }
}
