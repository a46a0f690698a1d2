//! Carries out the requests of callers: `saline-call` beside a running minion.

use std::sync::Arc;

use saline_channel::Identity;
use saline_channel::publication::sign_job;
use saline_messages::{
    CallerReply, CallerRequest, CallerReturn, EventOrigin, Jid, Job, MAX_EVENTS, MinionId,
    MinionJobState, MustClaim, PARTS_FROM, RefusedVerb, Return, ReturnVerdict,
};
use saline_targeting::{Target, TargetKind};

use super::minion::{FIRING_DELAY, NO_ROOM, return_report};
use crate::authorize::Principal;
use crate::bounds::TokenBuckets;
use crate::clock::MasterClock;
use crate::events::{Events, MinionEventFirer};
use crate::jobs::{CarriedOut, JobFunction, JobStore, NewJob, StoreError};

/// Carries out the requests of callers, which draw on the account of their minion.
#[derive(Debug)]
pub struct CallerVerbs {
    pub(crate) clock: MasterClock,
    pub(crate) identity: Arc<Identity>,
    pub(crate) jobs: Arc<JobStore>,
    /// Apart from that of the minion, since its events are numbered by another start.
    pub(crate) minion_events: MinionEventFirer,
    pub(crate) limiter: Arc<TokenBuckets<MinionId>>,
    pub(crate) events: Events,
}

impl CallerVerbs {
    /// Carries out the request of a caller with the key of the minion `id`, whose events have this origin.
    pub async fn carry_out(
        &self,
        origin: EventOrigin,
        id: &MinionId,
        request: CallerRequest,
    ) -> CallerReply {
        match request {
            CallerRequest::FireEvents(events) if events.events.len() > MAX_EVENTS => {
                CallerReply::Refused(RefusedVerb::Malformed)
            }
            CallerRequest::FireEvents(events) => {
                match self.minion_events.fire(origin, id, events).await {
                    Ok(true) => CallerReply::Done,
                    Ok(false) => CallerReply::busy(FIRING_DELAY),
                    Err(error) => CallerReply::Failed(error.to_string()),
                }
            }
            CallerRequest::Return(returned) if !returned.is_within_bounds() => {
                CallerReply::Refused(RefusedVerb::Malformed)
            }
            CallerRequest::Return(returned) => match self.store(id, returned).await {
                Ok(reply) => reply,
                Err(error) => {
                    tracing::error!("a call on minion {id}: the job store failed: {error}");
                    CallerReply::Failed(error.to_string())
                }
            },
        }
    }

    /// Stores a return under a job of its own. A request that is repeated finds the job, and its return is a
    /// duplicate.
    async fn store(&self, id: &MinionId, called: CallerReturn) -> Result<CallerReply, StoreError> {
        let now = self.clock.now();
        let job = Job {
            jid: self.jobs.next_jid(),
            target: Target {
                kind: TargetKind::List,
                expression: id.to_string(),
            },
            fun: called.fun.clone(),
            arg: called.arg.clone(),
            user: called.user,
            created: now,
            // No minion may begin it.
            expires: now,
            claims: MustClaim::NOBODY,
        };
        let mut jid = job.jid.clone();
        let new = NewJob {
            job: sign_job(&self.identity, job),
            operator: owner(id),
            request: called.request_id,
            minions: vec![(id.clone(), MinionJobState::Running)],
            unknown: Vec::new(),
            batch: None,
            resolved: None,
            metadata: None,
        };
        if let CarriedOut::Before(published) = self.jobs.publish(new).await? {
            match published.jid {
                Some(before) if self.is_of(&before, id).await? => jid = before,
                // Another peer's request has this number.
                _ => return Ok(CallerReply::Refused(RefusedVerb::Malformed)),
            }
        }
        let returned = Return {
            jid: jid.clone(),
            fun: called.fun,
            retcode: called.retcode,
            success: called.success,
            payload: called.payload,
        };
        let mut report = return_report(&returned);
        let verdict = if returned.payload.as_bytes().len() > PARTS_FROM {
            match self.jobs.store_large_return(id, returned).await? {
                None => return Ok(CallerReply::busy(NO_ROOM)),
                verdict => verdict,
            }
        } else {
            let verdicts = self.jobs.store_returns(id, vec![returned]).await?;
            verdicts.first().copied()
        };
        match verdict {
            Some(ReturnVerdict::Stored) => {
                report.call = self.jobs.function_of(&jid).await?;
                self.log(&jid, id, report.call.as_deref());
                self.events.job_returned(&jid, id, report).await;
                Ok(CallerReply::Stored(jid))
            }
            Some(ReturnVerdict::Duplicate) => Ok(CallerReply::Stored(jid)),
            _ => Ok(CallerReply::Failed("it did not take the return".to_owned())),
        }
    }

    /// Whether a stored job is a call on this minion.
    async fn is_of(&self, jid: &Jid, id: &MinionId) -> Result<bool, StoreError> {
        let stored = self.jobs.job(jid).await?;
        Ok(stored.is_some_and(|stored| stored.operator == owner(id)))
    }

    fn log(&self, jid: &Jid, id: &MinionId, call: Option<&JobFunction>) {
        if self.limiter.allows(id) {
            let fun = call.map_or("a function", |call| &call.fun);
            tracing::info!("job {jid}: {fun} was called on minion {id} itself");
        }
    }
}

/// Returns the owner of what is called on a minion.
fn owner(id: &MinionId) -> String {
    Principal::Caller(id.clone()).owner()
}
