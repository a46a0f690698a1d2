//! Publishing a job: its target is resolved, it is committed with its offers, and then sent to its minions.
//!
//! A job for grains is sealed for each of its minions alone. Minions match targets themselves: if such a job went
//! to the topic of all, a minion whose grains have changed since its last report could run it without having been
//! offered it. A minion that no longer matches declines.

mod offer;

use std::sync::Arc;
use std::time::Duration;

use saline_channel::Identity;
use saline_channel::publication::sign_job;
use saline_data::printable::number_of;
use saline_data::{Packed, Value, time_span};
use saline_messages::{
    CallsError, Jid, Job, MAX_METADATA, MAX_RETURNERS, MasterTime, MinionId, MinionJobState,
    MustClaim, OrderWarning, PackedArguments, PublishRequest, Published, SignedJob, calls,
    is_compound,
};
use saline_targeting::Target;

use super::{OrderError, ResolvedTarget, TargetResolver, unknown_functions};
use crate::authorize::{About, Action, AddressedJob, Principal, Reached};
use crate::clock::MasterClock;
use crate::decisions::{AllowedOrder, Decisions, Details};
use crate::events::Events;
use crate::facts::IncludedMinions;
use crate::jobs::{CarriedOut, JobStore, NewJob, StoreError, may_become};
use crate::peers::Revocation;
use crate::publisher::MinionPublisher;
use crate::returners::Returners;
use crate::sessions::Sessions;
use crate::settings::LiveSettings;

use offer::Offer;

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
    pub(crate) returners: Returners,
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

/// Checks what an order brings with it.
fn check(request: &PublishRequest) -> Result<(), OrderError> {
    if request.fun.len() > MAX_FUNCTION || request.user.len() > MAX_USER {
        let why = "the name of a function, or of a user, is too long";
        return Err(OrderError::Invalid(why.to_owned()));
    }
    if is_compound(&request.fun) {
        let arguments = request.arg.unpack().map_err(|_| CallsError::Malformed);
        let checked = arguments.and_then(|arguments| calls(&request.fun, arguments));
        checked.map_err(|error| OrderError::Invalid(error.to_string()))?;
        if request.secrets.is_some() {
            let why = "secret arguments are passed to one function alone, and this job has several";
            return Err(OrderError::Invalid(why.to_owned()));
        }
    }
    if request.returners.len() > MAX_RETURNERS {
        let why = format!("--return names more than {MAX_RETURNERS} destinations");
        return Err(OrderError::Invalid(why));
    }
    let refused = request.metadata.as_ref().and_then(refused_metadata);
    refused.map_or(Ok(()), |why| Err(OrderError::Invalid(why)))
}

/// Returns what the audit file says that an order is about.
fn subject(jid: &Jid, returners: &[String]) -> String {
    match returners {
        [] => format!("job {jid}"),
        names => format!("job {jid}, returned to {}", names.join(", ")),
    }
}

/// The minions that an order is about.
#[derive(Debug)]
struct OrderedMinions {
    /// When the master began to look for them.
    resolved: MasterTime,
    /// When it had found them: the time of the job.
    found: MasterTime,
    /// The target of the job: its minions match it themselves.
    target: Target,
    /// Their ids, sorted.
    ids: Vec<MinionId>,
    /// The minions without known grains that the principal may know of.
    without_grains: Vec<MinionId>,
    /// The minions of which the master has no pillar, if the target looks at pillars, that the principal may know of.
    without_pillar: Vec<MinionId>,
    /// The names in a list for which there is no key.
    unknown: Vec<String>,
    /// Whether what they say of themselves may have decided about them.
    by_claims: bool,
    /// Whether the job is sealed for each of them alone.
    is_apart: bool,
    /// The job that the order's arguments name.
    job: Option<AddressedJob>,
}

impl PublishOrder {
    /// Publishes a job, if the principal may run the function on all minions that the target includes. Returns when it is
    /// committed. An order that was carried out before is not carried out again: what it published is returned.
    ///
    /// # Errors
    /// When no job was published.
    pub(crate) async fn carry_out(
        &self,
        principal: &Principal,
        request: PublishRequest,
    ) -> Result<Published, OrderError> {
        check(&request)?;
        self.check_ttl(&request)?;
        let named = self.returners.check(&request.returners);
        named.map_err(OrderError::Invalid)?;
        let ordered = self.resolve(principal, &request).await?;
        let unknown = self.unknown_functions(&request, &ordered);
        let jid = match ordered.ids.is_empty() || unknown.is_some() {
            true => None,
            false => Some(self.jid(&request)?),
        };
        let deciding = self.decide(principal, &request, &ordered, jid.as_ref());
        let allowed = deciding.await?;
        let mut warnings = allowed.warnings();
        if ordered.by_claims && request.secrets.is_some() {
            warnings.push(OrderWarning::SecretsByClaims);
        }
        // After the decision: a user who may not call a function is not told whether it exists.
        if let Some(why) = unknown {
            allowed.synced().await;
            return Err(OrderError::Invalid(why));
        }
        let Some(jid) = jid else {
            tracing::info!(
                "{} asked for {} on {:?}: no minion matched",
                describe_operator(principal, &request.user),
                request.fun,
                ordered.target.masked()
            );
            allowed.synced().await;
            return Ok(Published {
                jid: None,
                expires: 0,
                minions: Vec::new(),
                unknown: ordered.unknown,
                without_grains: ordered.without_grains,
                without_pillar: ordered.without_pillar,
                batch: None,
                warnings,
            });
        };
        let offer = self.offer(&request, &ordered);
        let new = self.new_job(jid, principal, request, &ordered, offer);
        if let CarriedOut::Before(published) = self.commit(new.clone(), allowed).await? {
            return Ok(Published {
                warnings,
                ..published
            });
        }
        let NewJob {
            job,
            mut minions,
            unknown,
            batch,
            ..
        } = new;
        self.show_withdrawn(&job.job.jid, ordered.resolved, &mut minions)
            .await;
        let published = Published {
            jid: Some(job.job.jid.clone()),
            expires: job.job.expires,
            minions: minions.clone(),
            unknown,
            without_grains: ordered.without_grains,
            without_pillar: ordered.without_pillar,
            batch,
            warnings,
        };
        self.announce(job, principal, minions, ordered.is_apart)
            .await;
        Ok(published)
    }

    /// Refuses a job that is to wait longer than jobs are kept: a time that was cut would be an order that nobody gave.
    fn check_ttl(&self, request: &PublishRequest) -> Result<(), OrderError> {
        let kept = self.settings.now().keep_jobs;
        let Some(ttl) = request.ttl_ms.filter(|ttl| *ttl > kept) else {
            return Ok(());
        };
        let [ttl, kept] = [ttl, kept].map(|ms| time_span::write(Duration::from_millis(ms)));
        Err(OrderError::Invalid(format!(
            "no job can wait for minions for {ttl} (--ttl), since the master keeps jobs for {kept} (keep_jobs_seconds)"
        )))
    }

    /// Finds the minions that an order is about.
    async fn resolve(
        &self,
        principal: &Principal,
        request: &PublishRequest,
    ) -> Result<OrderedMinions, OrderError> {
        if request.target.has_pillar_terms() {
            self.check_pillar_target(principal, request).await?;
        }
        let resolved = self.clock.now();
        let target = request.target.clone();
        let resolving = self.targets.resolve(target, request.include_unknown);
        let resolving = resolving.await;
        let found = self.clock.now();
        let ResolvedTarget {
            target,
            minions,
            mut without_grains,
            without_pillar,
            unknown,
            ..
        } = resolving.map_err(|error| error.told_to(principal, &self.decisions.authorizer))?;
        // A minion that the master takes for another one would run a job that is not its own: the topic of all
        // minions is for targets that ids alone decide.
        let is_apart = request.private || target.needs_grains();
        let mut target = target.target().clone();
        let by_claims = matches!(minions, IncludedMinions::ByClaimed(_));
        let mut ids = minions.into_ids();
        if let Some(most) = request.subset {
            ids = self.choose(ids, most, found)?;
            target = Target::list(ids.iter().map(MinionId::as_str));
            if request.include_unknown {
                without_grains.retain(|id| ids.binary_search(id).is_ok());
            }
        }
        let job = self
            .addressed_job(principal, &request.fun, &request.arg)
            .await?;
        if let Some(own) = job.as_ref().filter(|job| job.owner == principal.owner()) {
            // Others cannot run it: `'*'` tells of none of them.
            ids.retain(|id| own.has(id));
            target = Target::list(ids.iter().map(MinionId::as_str));
        }
        let authorizer = &self.decisions.authorizer;
        Ok(OrderedMinions {
            resolved,
            found,
            target,
            ids,
            without_grains: authorizer.known_to(principal, without_grains),
            without_pillar: authorizer.known_to(principal, without_pillar),
            unknown,
            by_claims,
            is_apart,
            job,
        })
    }

    /// Returns why a job for these minions would be refused now, if none that would begin it can know its function.
    pub(crate) fn unknown_function(&self, fun: &str, minions: &[MinionId]) -> Option<String> {
        unknown_functions::refusal(&self.sessions, fun, minions, self.clock.now(), false)
    }

    /// Returns why the order is refused, if no minion that would begin the job can know its function.
    fn unknown_functions(
        &self,
        request: &PublishRequest,
        ordered: &OrderedMinions,
    ) -> Option<String> {
        if request.allow_unknown_functions {
            return None;
        }
        let (minions, created) = (&ordered.ids, ordered.found);
        // A batch skips minions that are away, so that they do not count there either.
        let waits = request.ttl_ms.is_some();
        unknown_functions::refusal(&self.sessions, &request.fun, minions, created, waits)
    }

    /// Refuses a principal that may not choose by pillar before anything is looked for: what comes of the search would tell
    /// it of values.
    async fn check_pillar_target(
        &self,
        principal: &Principal,
        request: &PublishRequest,
    ) -> Result<(), OrderError> {
        if self.decisions.authorizer.sees_all(principal) {
            return Ok(());
        }
        let about = About::Minions(Reached::by(&request.target, &[]));
        let details = Details {
            function: Some(&request.fun),
            arguments: Some(&request.arg),
            target: Some(&request.target),
            request: Some(request.request_id),
            ..Details::default()
        };
        let decided = self
            .decisions
            .decide(principal, Action::Publish, about, details);
        decided.await.map(drop).map_err(OrderError::NotAllowed)
    }

    /// Returns the jid of the job: before the decision, so that the line of the audit file has it.
    fn jid(&self, request: &PublishRequest) -> Result<Jid, OrderError> {
        let jid = self.jobs.jid_for(request.request_id, request.jid.clone());
        jid.map_err(|refused| OrderError::Invalid(refused.to_string()))
    }

    /// Decides whether the principal may give the order.
    async fn decide(
        &self,
        principal: &Principal,
        request: &PublishRequest,
        ordered: &OrderedMinions,
        jid: Option<&Jid>,
    ) -> Result<AllowedOrder, OrderError> {
        let about = About::Function {
            fun: &request.fun,
            arguments: &request.arg,
            minions: Reached::by(&request.target, &ordered.ids),
            job: ordered.job.as_ref(),
        };
        let details = Details {
            function: Some(&request.fun),
            arguments: Some(&request.arg),
            target: Some(&request.target),
            minions: Some(&ordered.ids),
            request: Some(request.request_id),
            subject: jid.map(|jid| subject(jid, &request.returners)),
        };
        let decided = self
            .decisions
            .decide(principal, Action::Publish, about, details);
        decided.await.map_err(OrderError::NotAllowed)
    }

    /// Returns the signed job as it is to be stored.
    fn new_job(
        &self,
        jid: Jid,
        principal: &Principal,
        request: PublishRequest,
        ordered: &OrderedMinions,
        offer: Offer,
    ) -> NewJob {
        let job = Job {
            jid,
            target: ordered.target.clone(),
            fun: request.fun,
            arg: request.arg,
            // What a program says of the user does not count where the master knows the user.
            user: match principal {
                Principal::ExternalUser(user) => user.name.clone(),
                _ => request.user,
            },
            created: ordered.found,
            expires: offer.expires,
            claims: offer.claims,
        };
        NewJob {
            job: SignedJob {
                secrets: request.secrets,
                ..sign_job(&self.identity, job)
            },
            operator: principal.owner(),
            request: request.request_id,
            minions: offer.minions,
            unknown: ordered.unknown.clone(),
            batch: offer.batch,
            resolved: Some(ordered.resolved),
            metadata: request.metadata,
            returners: request.returners.into_vec(),
        }
    }

    /// Stores a job, while the line of the order in the audit file is synced.
    async fn commit(
        &self,
        new: NewJob,
        allowed: AllowedOrder,
    ) -> Result<CarriedOut<Published>, StoreError> {
        self.note_keys(&new.minions).await;
        let (carried_out, _) = tokio::join!(self.jobs.publish(new), allowed.synced());
        carried_out
    }

    /// Shows which minions lost the job because their keys went while it was published.
    async fn show_withdrawn(
        &self,
        jid: &Jid,
        resolved: MasterTime,
        minions: &mut [(MinionId, MinionJobState)],
    ) {
        let withdrawn = match self.jobs.withdrawn_late(jid, resolved).await {
            Ok(withdrawn) => withdrawn,
            Err(error) => {
                // The job is published, and a later look at its states tells.
                tracing::warn!("job {jid}: whether keys have gone cannot be read: {error}");
                return;
            }
        };
        for (id, state) in minions {
            if withdrawn.contains(id) && may_become(*state, MinionJobState::Withdrawn) {
                *state = MinionJobState::Withdrawn;
            }
        }
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
            "job {}: {} published {} to {:?} for {}, {who}",
            job.jid,
            describe_operator(principal, &job.user),
            job.fun,
            job.target.expression,
            number_of(minions.len(), "minion")
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
        Principal::ExternalUser(own) => own.name == user,
        _ => principal.owner() == user,
    };
    match is_same {
        true => name,
        false => format!("{name} (its program names user {user})"),
    }
}

#[cfg(test)]
mod tests;
