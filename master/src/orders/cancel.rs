//! Cancelling a job: what no minion has begun yet ends.

use std::sync::Arc;

use saline_messages::{Jid, MinionJobState, OperatorReply};

use crate::events::Events;
use crate::jobs::{JobStore, StoreError};
use crate::publisher::MinionPublisher;

/// Cancels jobs.
#[derive(Debug)]
pub struct CancelOrder {
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) publisher: MinionPublisher,
    pub(crate) events: Events,
}

impl CancelOrder {
    /// Carries out the request of the operator `name`.
    pub(crate) async fn carry_out(
        &self,
        name: &str,
        jid: &Jid,
    ) -> Result<OperatorReply, StoreError> {
        Ok(match self.cancel(name, jid).await? {
            true => OperatorReply::Cancelling,
            false => OperatorReply::NoSuchJob,
        })
    }

    /// Cancels a job for the operator `name`. Returns whether there is such a job.
    pub(crate) async fn cancel(&self, name: &str, jid: &Jid) -> Result<bool, StoreError> {
        let Some(queued) = self.jobs.cancel(jid).await? else {
            return Ok(false);
        };
        tracing::info!("operator {name}: cancelled job {jid}");
        for id in queued {
            self.events
                .job_state(jid, &id, MinionJobState::Cancelled)
                .await;
        }
        // Minions learn of it with their next heartbeat, and send one now.
        self.publisher.request_heartbeats().await;
        Ok(true)
    }
}
