//! Cancelling a job: what no minion has begun yet ends.

use std::sync::Arc;

use saline_messages::{Jid, MinionJobState, OrderWarning};

use super::OrderError;
use crate::authorize::{About, Action, Principal};
use crate::decisions::{Decisions, Details};
use crate::events::Events;
use crate::jobs::JobStore;
use crate::publisher::MinionPublisher;

/// Cancels jobs.
#[derive(Debug)]
pub struct CancelOrder {
    pub(crate) decisions: Decisions,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) publisher: MinionPublisher,
    pub(crate) events: Events,
}

impl CancelOrder {
    /// Cancels a job, if the principal may: the request is stored when this returns what the operator is warned of.
    ///
    /// # Errors
    /// When there is no such job, the principal may not cancel it, or the job store fails.
    pub(crate) async fn carry_out(
        &self,
        principal: &Principal,
        jid: &Jid,
    ) -> Result<Vec<OrderWarning>, OrderError> {
        let no_such_job = || OrderError::NoSuchJob(jid.clone());
        let owner = self.jobs.owner(jid).await?.ok_or_else(no_such_job)?;
        let details = Details {
            subject: Some(format!("job {jid} of {owner}")),
            ..Details::default()
        };
        let about = About::Owner(&owner);
        let decided = self
            .decisions
            .decide(principal, Action::CancelJob, about, details);
        let allowed = decided.await.map_err(OrderError::NotAllowed)?;
        let warnings = allowed.synced().await;
        let queued = self.jobs.cancel(jid).await?.ok_or_else(no_such_job)?;
        tracing::info!("{}: cancelled job {jid}", principal.log_name());
        for id in queued {
            self.events
                .job_state(jid, &id, MinionJobState::Cancelled)
                .await;
        }
        // Minions learn of it with their next heartbeat, and send one now.
        self.publisher.request_heartbeats().await;
        Ok(warnings)
    }
}
