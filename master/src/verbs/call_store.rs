//! Makes the jobs of what a minion's machine ran by itself: calls of `saline-call`, and jobs of the minion's schedule.

use std::sync::Arc;

use saline_channel::Identity;
use saline_channel::publication::sign_job;
use saline_data::Packed;
use saline_messages::{
    CallerReturn, Jid, Job, MinionId, MinionJobState, MustClaim, PARTS_FROM, PackedArguments,
    RequestId, Return, ReturnVerdict, ScheduledRun, user_of_schedule,
};
use saline_targeting::{Target, TargetKind};

use crate::authorize::{Principal, scheduled_owner};
use crate::bounds::TokenBuckets;
use crate::clock::MasterClock;
use crate::events::{Events, ReturnReport};
use crate::jobs::{CarriedOut, JobFunction, JobStore, NewJob, StoreError};
use crate::returners::Returners;

/// Stores calls and scheduled runs, each as a job of its own.
#[derive(Debug, Clone)]
pub(crate) struct CallStore {
    pub(crate) clock: MasterClock,
    pub(crate) identity: Arc<Identity>,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) limiter: Arc<TokenBuckets<MinionId>>,
    pub(crate) events: Events,
    pub(crate) returners: Returners,
}

/// What a minion ran by itself.
struct OwnJob {
    /// The name under which the store has it.
    owner: String,
    request: RequestId,
    fun: String,
    arg: PackedArguments,
    user: String,
    metadata: Option<Packed>,
    returners: Vec<String>,
}

/// What became of a call.
#[derive(Debug)]
pub(super) enum CallStored {
    /// The store has it, under this job.
    Stored(Jid),
    /// There is no room for a large return now.
    NoRoom,
    /// Another peer's request has its number.
    Refused,
    /// It names a destination that the configuration does not have.
    NoDestination(String),
    /// The store did not take the return.
    Failed,
}

impl CallStore {
    /// Stores the return of a call. A request that is repeated finds its job, and its return is a duplicate.
    pub(super) async fn called(
        &self,
        id: &MinionId,
        called: CallerReturn,
    ) -> Result<CallStored, StoreError> {
        if let Err(why) = self.returners.check(&called.returners) {
            return Ok(CallStored::NoDestination(why));
        }
        let new = OwnJob {
            owner: Principal::Caller(id.clone()).owner(),
            request: called.request_id,
            fun: called.fun.clone(),
            arg: called.arg,
            user: called.user,
            metadata: None,
            returners: called.returners,
        };
        let Some(jid) = self.job_of(id, new).await? else {
            return Ok(CallStored::Refused);
        };
        let returned = Return {
            jid: jid.clone(),
            fun: called.fun,
            retcode: called.retcode,
            success: called.success,
            payload: called.payload,
        };
        let mut report = ReturnReport::of(&returned);
        let verdict = if returned.payload.as_bytes().len() > PARTS_FROM {
            match self.jobs.store_large_return(id, returned).await? {
                None => return Ok(CallStored::NoRoom),
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
                Ok(CallStored::Stored(jid))
            }
            Some(ReturnVerdict::Duplicate) => Ok(CallStored::Stored(jid)),
            _ => Ok(CallStored::Failed),
        }
    }

    /// Returns the job of a run of the minion's schedule, whose return the minion delivers; none if another peer's request has
    /// its number.
    pub(super) async fn scheduled(
        &self,
        id: &MinionId,
        run: ScheduledRun,
    ) -> Result<Option<Jid>, StoreError> {
        let new = OwnJob {
            owner: scheduled_owner(id),
            request: run.request_id,
            user: user_of_schedule(&run.schedule),
            fun: run.fun,
            arg: run.arg,
            metadata: run.metadata,
            returners: Vec::new(),
        };
        self.job_of(id, new).await
    }

    /// Makes the job of what a minion ran by itself, or finds the one that the same request has made; none if another
    /// peer's request has its number.
    async fn job_of(&self, id: &MinionId, new: OwnJob) -> Result<Option<Jid>, StoreError> {
        let now = self.clock.now();
        let owner = new.owner;
        let job = Job {
            jid: self.jobs.next_jid(),
            target: Target {
                kind: TargetKind::List,
                expression: id.to_string(),
            },
            fun: new.fun,
            arg: new.arg,
            user: new.user,
            created: now,
            // No minion may begin it.
            expires: now,
            claims: MustClaim::NOBODY,
        };
        let jid = job.jid.clone();
        let new = NewJob {
            job: sign_job(&self.identity, job),
            operator: owner.clone(),
            request: new.request,
            minions: vec![(id.clone(), MinionJobState::Running)],
            unknown: Vec::new(),
            batch: None,
            resolved: None,
            metadata: new.metadata,
            returners: new.returners,
        };
        Ok(match self.jobs.publish(new).await? {
            CarriedOut::Now => Some(jid),
            CarriedOut::Before(published) => match published.jid {
                Some(before) if self.is_of(&before, &owner).await? => Some(before),
                _ => None,
            },
        })
    }

    /// Whether the store has a job for this owner.
    async fn is_of(&self, jid: &Jid, owner: &str) -> Result<bool, StoreError> {
        let stored = self.jobs.job(jid).await?;
        Ok(stored.is_some_and(|stored| stored.operator == owner))
    }

    fn log(&self, jid: &Jid, id: &MinionId, call: Option<&JobFunction>) {
        if self.limiter.allows(id) {
            let fun = call.map_or("a function", |call| &call.fun);
            tracing::info!("job {jid}: {fun} was called on minion {id} itself");
        }
    }
}
