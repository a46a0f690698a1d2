//! Carries out the requests of operators.

use saline_messages::{
    OperatorReply, OperatorRequest, PublicationWithJid, PublicationWithMetadata,
};

use crate::orders::{CancelOrder, PublishOptions, PublishOrder};
use crate::publisher::MinionPublisher;

use super::{JobQueries, KeyHolderQueries, KeyVerbs, RunnerVerb, StoreVerbs, TargetQueries};

/// Carries out the requests of operators.
#[derive(Debug)]
pub struct OperatorVerbs {
    pub(crate) publish: PublishOrder,
    pub(crate) queries: JobQueries,
    pub(crate) keys: KeyVerbs,
    pub(crate) store: StoreVerbs,
    pub(crate) cancel: CancelOrder,
    pub(crate) targets: TargetQueries,
    pub(crate) runners: RunnerVerb,
    pub(crate) key_holders: KeyHolderQueries,
    pub(crate) publisher: MinionPublisher,
}

impl OperatorVerbs {
    /// Carries out the request of the operator `name`.
    pub async fn carry_out(&self, name: &str, request: OperatorRequest) -> OperatorReply {
        let done = match request {
            OperatorRequest::Publish(request) => {
                self.publish
                    .carry_out(name, request, PublishOptions::default())
                    .await
            }
            OperatorRequest::PublishWithMetadata(publication) => {
                let PublicationWithMetadata { publish, metadata } = *publication;
                let options = PublishOptions {
                    metadata: Some(metadata),
                    jid: None,
                };
                self.publish.carry_out(name, publish, options).await
            }
            OperatorRequest::PublishWithJid(publication) => {
                let PublicationWithJid {
                    publish,
                    metadata,
                    jid,
                } = *publication;
                let options = PublishOptions {
                    metadata,
                    jid: Some(jid),
                };
                self.publish.carry_out(name, publish, options).await
            }
            OperatorRequest::Runner(request) => self.runners.carry_out(name, request).await,
            OperatorRequest::JobReturns { jid, after } => self.queries.returns(&jid, after).await,
            OperatorRequest::JobStates { jid, after } => self.queries.states(&jid, after).await,
            OperatorRequest::JobList { limit, before } => self.queries.list(limit, before).await,
            OperatorRequest::JobLookup { jid } => self.queries.lookup(&jid).await,
            OperatorRequest::Cancel { jid } => self.cancel.carry_out(name, &jid).await,
            OperatorRequest::Keys(request) => self.keys.carry_out(name, request).await,
            OperatorRequest::Batches => Ok(self.queries.batches()),
            OperatorRequest::Running => Ok(self.queries.running()),
            OperatorRequest::Versions => Ok(self.queries.versions()),
            OperatorRequest::MatchTarget(target) => Ok(self.targets.matches(target).await),
            OperatorRequest::Grains { target, after } => {
                Ok(self.targets.grains(target, after.as_ref()).await)
            }
            OperatorRequest::RotateGroupKey => {
                tracing::info!("operator {name}: rotates the group key");
                self.publisher.rotate().await;
                Ok(OperatorReply::Rotated)
            }
            OperatorRequest::KeyHolders(minions) => Ok(self.key_holders.carry_out(minions).await),
            OperatorRequest::Store { request_id, act } => {
                Ok(self.store.carry_out(name, request_id, act).await)
            }
        };
        done.unwrap_or_else(|error| {
            tracing::error!("operator {name}: the job store failed: {error}");
            OperatorReply::Failed(error.to_string())
        })
    }
}
