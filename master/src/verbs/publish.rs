//! `Publish`: resolves the target, commits the job with its offers, and publishes it.

use std::collections::HashSet;
use std::sync::Arc;

use saline_protocol::channel::Identity;
use saline_protocol::channel::publication::sign_job;
use saline_protocol::message::{
    Job, MasterTime, MinionId, OfferState, OperatorReply, PackedArguments, Published, RequestId,
    SignedJob,
};
use saline_protocol::target::{CompiledTarget, Target};

use crate::events::Events;
use crate::jobs::{Committed, JobStore, NewJob, StoreError};
use crate::keys::{KeyAccess, KeyStore};
use crate::master_clock::MasterClock;
use crate::publisher::MinionPublisher;
use crate::sessions::Sessions;

/// Answers the verb that publishes a job: commits it, then sends it to its minions.
#[derive(Debug)]
pub struct PublishVerb {
    pub(crate) clock: MasterClock,
    /// How long minions may take to begin a job, in milliseconds.
    pub(crate) job_ttl: u64,
    /// The longest time that an operator may give minions, in milliseconds: jobs are not kept longer.
    pub(crate) ttl_most: u64,
    pub(crate) identity: Arc<Identity>,
    pub(crate) keys: KeyAccess,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) publisher: MinionPublisher,
    pub(crate) events: Events,
}

/// The fields of the request `Publish`.
#[derive(Debug)]
pub(super) struct PublishRequest {
    pub(super) request_id: RequestId,
    pub(super) target: Target,
    pub(super) fun: String,
    pub(super) arg: PackedArguments,
    pub(super) user: String,
    /// How long minions may take to begin, in milliseconds; the job is queued for those that are away.
    pub(super) ttl_ms: Option<u64>,
    /// Whether the job is sealed for each of its minions alone.
    pub(super) private: bool,
}

/// The accepted minions that a target includes, and the names in a list that have no key.
struct Resolved {
    minions: Vec<(MinionId, OfferState)>,
    unknown: Vec<String>,
}

impl PublishVerb {
    /// Carries out the request of the operator `name`.
    pub(super) async fn carry_out(
        &self,
        name: &str,
        request: PublishRequest,
    ) -> Result<OperatorReply, StoreError> {
        let target = match request.target.compile() {
            Ok(target) => target,
            Err(error) => return Ok(OperatorReply::BadTarget(error.to_string())),
        };
        let resolved = self.clock.now();
        let accepted = match self.keys.with_minions(KeyStore::accepted_ids).await {
            Some(Ok(ids)) => ids,
            Some(Err(error)) => return Ok(OperatorReply::Failed(error.to_string())),
            None => return Ok(OperatorReply::Failed("the key store failed".to_owned())),
        };
        let created = self.clock.now();
        let queues = request.ttl_ms.is_some();
        let Resolved {
            mut minions,
            unknown,
        } = self.resolve(&target, &accepted, created, queues);
        let target = target.into_target();
        if minions.is_empty() {
            let who = describe_operator(name, &request.user);
            tracing::info!(
                "{who} asked for {} on {:?}: no minion matched",
                request.fun,
                target.expression
            );
            return Ok(OperatorReply::Published(Published {
                jid: None,
                expires: 0,
                minions,
                unknown,
            }));
        }
        let away = minions
            .iter()
            .filter(|(_, state)| *state != OfferState::Offered);
        let ttl = request.ttl_ms.unwrap_or(self.job_ttl).min(self.ttl_most);
        let job = Job {
            jid: self.jobs.next_jid(),
            target,
            fun: request.fun,
            arg: request.arg,
            user: request.user,
            created,
            expires: MasterTime::saturating_add(created, ttl),
            claims: self.sessions.claims(created, away.map(|(id, _)| id)),
        };
        let job = sign_job(&self.identity, job);
        let new = NewJob {
            job: job.clone(),
            operator: name.to_owned(),
            request: request.request_id,
            minions: minions.clone(),
            unknown: unknown.clone(),
        };
        if let Committed::Before(published) = self.jobs.publish(new).await? {
            return Ok(OperatorReply::Published(published));
        }
        let withdrawn = self.jobs.withdraw_late(&job.job.jid, resolved);
        for (id, state) in &mut minions {
            if withdrawn.contains(id) {
                *state = OfferState::Withdrawn;
            }
        }
        let published = Published {
            jid: Some(job.job.jid.clone()),
            expires: job.job.expires,
            minions: minions.clone(),
            unknown,
        };
        self.announce(job, name, minions, request.private).await;
        Ok(OperatorReply::Published(published))
    }

    fn resolve(
        &self,
        target: &CompiledTarget,
        accepted: &[MinionId],
        created: MasterTime,
        queues: bool,
    ) -> Resolved {
        let with_key: HashSet<&str> = match target.listed() {
            [] => HashSet::new(),
            _ => accepted.iter().map(MinionId::as_str).collect(),
        };
        let listed = target.listed().iter();
        let unknown = listed.filter(|name| !with_key.contains(name.as_str()));
        let minions = accepted.iter().filter(|id| target.matches(id)).map(|id| {
            let state = match self.sessions.is_offered(id, created) {
                true => OfferState::Offered,
                false if queues => OfferState::Queued,
                false => OfferState::NotConnected,
            };
            (id.clone(), state)
        });
        Resolved {
            unknown: unknown.cloned().collect(),
            minions: minions.collect(),
        }
    }

    /// Fires the event of a committed job, and sends the job to the connected minions.
    async fn announce(
        &self,
        signed: SignedJob,
        operator: &str,
        minions: Vec<(MinionId, OfferState)>,
        private: bool,
    ) {
        let job = &signed.job;
        let offered = minions
            .iter()
            .filter(|(_, state)| *state == OfferState::Offered);
        let connected: Vec<MinionId> = offered.map(|(id, _)| id.clone()).collect();
        tracing::info!(
            "job {}: {} published {} to {:?} for {} minions, {} of them connected",
            job.jid,
            describe_operator(operator, &job.user),
            job.fun,
            job.target.expression,
            minions.len(),
            connected.len()
        );
        self.events.job_new(job, operator, &minions).await;
        if !connected.is_empty() {
            match private {
                true => self.publisher.private_job(signed, connected).await,
                false => self.publisher.job(signed, connected).await,
            }
        }
    }
}

/// Returns who gives an order, for the log: the operator by the name of its key, and the user whom its
/// program names if that is another one.
fn describe_operator(operator: &str, user: &str) -> String {
    match operator == user {
        true => format!("operator {operator}"),
        false => format!("operator {operator} (its program names user {user})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_the_operator_and_what_it_calls_itself() {
        assert_eq!(describe_operator("root", "root"), "operator root");
        assert_eq!(
            describe_operator("root", "ann"),
            "operator root (its program names user ann)"
        );
    }
}
