//! Publishing a job: its target is resolved, it is committed with its offers, and then sent to its minions.
//!
//! A job for grains is sealed for each of its minions alone. Minions match targets themselves: if such a job went
//! to the topic of all, a minion whose grains have changed since its last report could run it without having been
//! offered it. A minion that no longer matches declines.

use std::sync::Arc;

use saline_channel::Identity;
use saline_channel::publication::sign_job;
use saline_data::{Packed, Value};
use saline_messages::random::{self, NoRandomness};
use saline_messages::{
    Job, MAX_METADATA, MasterTime, MinionId, MinionJobState, MustClaim, OperatorReply,
    PackedArguments, PublishRequest, Published, SignedJob,
};
use saline_targeting::Target;

use super::batch_choice;
use super::{Chosen, Decisions, Details, ResolveError, ResolvedTarget, TargetResolver};
use crate::authorize::{About, Action, AddressedJob, Principal};
use crate::clock::MasterClock;
use crate::events::Events;
use crate::jobs::{CarriedOut, JobStore, NewJob, StoreError, may_become};
use crate::peers::Revocation;
use crate::publisher::MinionPublisher;
use crate::sessions::Sessions;
use crate::settings::LiveSettings;

/// Publishes jobs: commits each with its offers, and then sends it to its minions.
#[derive(Debug)]
pub struct PublishOrder {
    pub(crate) clock: MasterClock,
    pub(crate) settings: LiveSettings,
    pub(crate) decisions: Decisions,
    pub(crate) identity: Arc<Identity>,
    pub(crate) targets: TargetResolver,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) publisher: MinionPublisher,
    pub(crate) revocation: Revocation,
    pub(crate) events: Events,
}

/// The longest name of a function, in bytes: every order has its name in the log and in the audit file.
const MAX_FUNCTION: usize = 256;

/// The longest name that a program may give its user, in bytes.
const MAX_USER: usize = 256;

/// Returns why metadata cannot be stored with a job; none if they can.
fn refused_metadata(metadata: &Packed) -> Option<String> {
    let bytes = metadata.as_bytes().len();
    if bytes > MAX_METADATA {
        return Some(format!(
            "the metadata have {bytes} bytes, and a job may have {MAX_METADATA}"
        ));
    }
    match metadata.unpack() {
        Ok(Value::Map(_)) => None,
        Ok(_) => Some("the metadata of a job are a mapping".to_owned()),
        Err(error) => Some(format!("the metadata of the job: {error}")),
    }
}

impl PublishOrder {
    /// Carries out the request of a principal, if it may run the function on all minions that the target includes.
    pub(crate) async fn carry_out(
        &self,
        principal: &Principal,
        request: PublishRequest,
    ) -> Result<OperatorReply, StoreError> {
        let owner = principal.owner();
        let name = owner.as_str();
        if request.fun.len() > MAX_FUNCTION || request.user.len() > MAX_USER {
            let why = "the name of a function, or of a user, is too long";
            return Ok(OperatorReply::Invalid(why.to_owned()));
        }
        if let Some(why) = request.metadata.as_ref().and_then(refused_metadata) {
            return Ok(OperatorReply::Invalid(why));
        }
        let resolved_at = self.clock.now();
        let asked = request.target.clone();
        let resolving = self
            .targets
            .resolve(request.target, request.include_unknown);
        let resolved = resolving.await;
        let created = self.clock.now();
        let resolved = match resolved {
            Ok(resolved) => resolved,
            Err(ResolveError::Target(why)) => return Ok(OperatorReply::BadTarget(why)),
            Err(ResolveError::Keys(why)) => return Ok(OperatorReply::Failed(why)),
        };
        let mut target = resolved.target.target().clone();
        // A minion that the master takes for another one would run a job that is not its own: the topic of all
        // minions is for targets that ids alone decide.
        let apart = request.private || resolved.target.needs_grains();
        let queues = request.ttl_ms.is_some();
        let ResolvedTarget {
            minions,
            mut without_grains,
            unknown,
            ..
        } = resolved;
        let by_claims = matches!(minions, Chosen::ByClaimed(_));
        let secrets_by_claims = by_claims && request.secrets.is_some();
        let mut minions = minions.into_ids();
        if let Some(most) = request.subset {
            minions = match self.choose(minions, most, created) {
                Ok(chosen) => chosen,
                Err(error) => return Ok(OperatorReply::Failed(error.to_string())),
            };
            target = Target::list(minions.iter().map(MinionId::as_str));
            if request.include_unknown {
                without_grains.retain(|id| minions.binary_search(id).is_ok());
            }
        }
        let job = self
            .addressed_job(principal, &request.fun, &request.arg)
            .await?;
        if let Some(own) = job.as_ref().filter(|job| job.owner == owner) {
            // Others cannot run it: `'*'` tells of none of them.
            minions.retain(|id| own.has(id));
            target = Target::list(minions.iter().map(MinionId::as_str));
        }
        let authorizer = &self.decisions.authorizer;
        let without_grains = authorizer.known_to(principal, without_grains);
        let about = About::Function {
            fun: &request.fun,
            arguments: &request.arg,
            minions: &minions,
            job: job.as_ref(),
        };
        let details = Details {
            function: Some(&request.fun),
            arguments: Some(&request.arg),
            target: Some(&asked),
            minions: Some(&minions),
            request: Some(request.request_id),
            subject: None,
        };
        let decided = self
            .decisions
            .decide(principal, Action::Publish, about, details);
        let decided = match decided.await {
            Ok(decided) => decided,
            Err(why) => return Ok(OperatorReply::NotAllowed(why)),
        };
        let mut minions = self.states(minions, created, queues);
        if minions.is_empty() {
            let who = describe_operator(principal, &request.user);
            tracing::info!(
                "{who} asked for {} on {:?}: no minion matched",
                request.fun,
                target.expression
            );
            decided.synced().await;
            return Ok(OperatorReply::Published(Published {
                jid: None,
                expires: 0,
                minions,
                unknown,
                without_grains,
                batch: None,
                secrets_by_claims: false,
            }));
        }
        let settings = self.settings.now();
        let batch =
            batch_choice::choose(&request.batch, settings.safe_batch, minions.len(), queues);
        if batch.is_some() {
            for (_, state) in &mut minions {
                *state = MinionJobState::Waiting;
            }
        }
        let claims = match batch {
            Some(_) => MustClaim::Everybody,
            None => {
                let away = minions
                    .iter()
                    .filter(|(_, state)| *state != MinionJobState::Offered);
                self.sessions.claims(created, away.map(|(id, _)| id))
            }
        };
        // The turn of the last minion of a batch may come long after the first one's.
        let usual = batch.map_or(settings.job_ttl, |_| settings.keep_jobs);
        // Jobs are not kept longer.
        let ttl = request.ttl_ms.unwrap_or(usual).min(settings.keep_jobs);
        let jid = match request.jid {
            None => self.jobs.next_jid(),
            Some(chosen) => match self.jobs.reserve_jid(chosen, request.request_id) {
                Ok(jid) => jid,
                Err(refused) => return Ok(OperatorReply::Invalid(refused.to_string())),
            },
        };
        let job = Job {
            jid,
            target,
            fun: request.fun,
            arg: request.arg,
            user: request.user,
            created,
            expires: MasterTime::saturating_add(created, ttl),
            claims,
        };
        let job = SignedJob {
            secrets: request.secrets,
            ..sign_job(&self.identity, job)
        };
        let new = NewJob {
            job: job.clone(),
            operator: name.to_owned(),
            request: request.request_id,
            minions: minions.clone(),
            unknown: unknown.clone(),
            batch,
            resolved: Some(resolved_at),
            metadata: request.metadata,
        };
        self.note_keys(&new.minions).await;
        let (carried_out, ()) = tokio::join!(self.jobs.publish(new), decided.synced());
        if let CarriedOut::Before(published) = carried_out? {
            return Ok(OperatorReply::Published(Published {
                secrets_by_claims,
                ..published
            }));
        }
        let withdrawn = self.jobs.withdrawn_late(&job.job.jid, resolved_at);
        for (id, state) in &mut minions {
            if withdrawn.contains(id) && may_become(*state, MinionJobState::Withdrawn) {
                *state = MinionJobState::Withdrawn;
            }
        }
        let published = Published {
            jid: Some(job.job.jid.clone()),
            expires: job.job.expires,
            minions: minions.clone(),
            unknown,
            without_grains,
            batch,
            secrets_by_claims,
        };
        self.announce(job, principal, minions, apart).await;
        Ok(OperatorReply::Published(published))
    }

    /// Returns the job that the arguments of a function name which reaches jobs by their ids. To somebody who sees all
    /// jobs it does not matter whose it is: none.
    async fn addressed_job(
        &self,
        principal: &Principal,
        fun: &str,
        arguments: &PackedArguments,
    ) -> Result<Option<AddressedJob>, StoreError> {
        if self.decisions.authorizer.sees_all(principal) {
            return Ok(None);
        }
        let Some(jid) = AddressedJob::jid(fun, arguments) else {
            return Ok(None);
        };
        let Some(owner) = self.jobs.owner(&jid).await? else {
            return Ok(None);
        };
        let states = self.jobs.states(&jid, None, usize::MAX).await?;
        Ok(states.map(|page| AddressedJob {
            owner,
            minions: page.states.into_iter().map(|(id, _)| id).collect(),
        }))
    }

    /// Has the job store note the keys of those that the job waits for: one that was accepted by hand a moment
    /// ago is not noted yet, and the key that is accepted next under its id must not inherit the job.
    async fn note_keys(&self, minions: &[(MinionId, MinionJobState)]) {
        // Of those that are connected it was noted before they were let in.
        let waits = minions
            .iter()
            .filter(|(_, state)| matches!(state, MinionJobState::Queued | MinionJobState::Waiting));
        let unknown = self.jobs.without_key(waits.map(|(id, _)| id));
        // The watch looks again at those that cannot be read.
        let _ = Box::pin(self.revocation.settle(unknown)).await;
    }

    /// Returns the state in which the job is offered to each of these minions.
    fn states(
        &self,
        minions: Vec<MinionId>,
        created: MasterTime,
        queues: bool,
    ) -> Vec<(MinionId, MinionJobState)> {
        let with_state = |id| match self.sessions.is_offered(&id, created) {
            true => (id, MinionJobState::Offered),
            false if queues => (id, MinionJobState::Queued),
            false => (id, MinionJobState::NotConnected),
        };
        minions.into_iter().map(with_state).collect()
    }

    /// Chooses at random so many of the minions that are present.
    fn choose(
        &self,
        mut left: Vec<MinionId>,
        most: u32,
        created: MasterTime,
    ) -> Result<Vec<MinionId>, NoRandomness> {
        left.retain(|id| self.sessions.is_offered(id, created));
        let mut chosen = Vec::new();
        for _ in 0..most.min(u32::try_from(left.len()).unwrap_or(u32::MAX)) {
            let number = u64::from_be_bytes(random::bytes()?) % left.len() as u64;
            // Below the length of a list in memory.
            chosen.push(left.swap_remove(usize::try_from(number).unwrap_or(0)));
        }
        chosen.sort_unstable();
        Ok(chosen)
    }

    /// Fires the event of a committed job, and sends the job to the connected minions, perhaps to each of them
    /// apart.
    async fn announce(
        &self,
        signed: SignedJob,
        principal: &Principal,
        minions: Vec<(MinionId, MinionJobState)>,
        apart: bool,
    ) {
        let job = &signed.job;
        let offered = minions
            .iter()
            .filter(|(_, state)| *state == MinionJobState::Offered);
        let connected: Vec<MinionId> = offered.map(|(id, _)| id.clone()).collect();
        let who = match job.claims {
            MustClaim::Everybody => "in batches".to_owned(),
            _ => format!("{} of them connected", connected.len()),
        };
        tracing::info!(
            "job {}: {} published {} to {:?} for {} minions, {who}",
            job.jid,
            describe_operator(principal, &job.user),
            job.fun,
            job.target.expression,
            minions.len()
        );
        let owner = principal.owner();
        self.events.job_new(job, &owner, &minions).await;
        if !connected.is_empty() {
            match apart {
                true => self.publisher.private_job(signed, connected).await,
                false => self.publisher.job(signed, connected).await,
            }
        }
    }
}

/// Returns who gives an order, for the log: the operator by the name of its key, and the user whom its
/// program names if that is another one.
fn describe_operator(principal: &Principal, user: &str) -> String {
    let name = principal.log_name();
    let is_same = match principal {
        Principal::LocalUser(own) => own.name == user,
        _ => principal.owner() == user,
    };
    match is_same {
        true => name,
        false => format!("{name} (its program names user {user})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_the_operator_and_what_it_calls_itself() {
        assert_eq!(
            describe_operator(&Principal::LocalRoot, "root"),
            "operator root"
        );
        assert_eq!(
            describe_operator(&Principal::MasterUser, "ann"),
            "operator root (its program names user ann)"
        );
    }
}
