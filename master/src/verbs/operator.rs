//! Carries out the requests of operators.

use saline_messages::{OperatorReply, OperatorRequest};

use crate::orders::{CancelOrder, PublishOrder};
use crate::publisher::MinionPublisher;

use super::{JobQueries, KeyVerbs, LastSeenQueries, RunnerVerb, TargetQueries};

/// Carries out the requests of operators.
#[derive(Debug)]
pub struct OperatorVerbs {
    pub(crate) publish: PublishOrder,
    pub(crate) queries: JobQueries,
    pub(crate) keys: KeyVerbs,
    pub(crate) cancel: CancelOrder,
    pub(crate) targets: TargetQueries,
    pub(crate) runners: RunnerVerb,
    pub(crate) last_seen: LastSeenQueries,
    pub(crate) publisher: MinionPublisher,
}

impl OperatorVerbs {
    /// Carries out the request of the operator `name`.
    pub async fn carry_out(&self, name: &str, request: OperatorRequest) -> OperatorReply {
        let done = match request {
            OperatorRequest::Publish(request) => self.publish.carry_out(name, request).await,
            OperatorRequest::Runner(request) => self.runners.carry_out(name, request).await,
            OperatorRequest::JobReturns { jid, after } => self.queries.returns(&jid, after).await,
            OperatorRequest::JobStates { jid, after } => self.queries.states(&jid, after).await,
            OperatorRequest::JobList { limit, before } => self.queries.list(limit, before).await,
            OperatorRequest::JobLookup { jid } => self.queries.lookup(&jid).await,
            OperatorRequest::Cancel { jid } => self.cancel.carry_out(name, &jid).await,
            OperatorRequest::Keys(request) => self.keys.carry_out(name, request).await,
            OperatorRequest::Running => Ok(self.queries.running()),
            OperatorRequest::MatchTarget {
                target,
                include_unknown,
            } => Ok(self.targets.matches(target, include_unknown).await),
            OperatorRequest::RotateGroupKey => {
                tracing::info!("operator {name}: rotates the group key");
                self.publisher.rotate().await;
                Ok(OperatorReply::Rotated)
            }
            OperatorRequest::LastSeen(minions) => Ok(self.last_seen.carry_out(minions).await),
        };
        done.unwrap_or_else(|error| {
            tracing::error!("operator {name}: the job store failed: {error}");
            OperatorReply::Failed(error.to_string())
        })
    }
}
