//! Stores what a minion's machine ran by itself: calls of `saline-call`, and jobs of the minion's schedule.

use std::sync::Arc;

use saline_channel::Identity;
use saline_channel::publication::sign_job;
use saline_data::Packed;
use saline_messages::{
    CallerReturn, Jid, Job, MinionId, MinionJobState, MustClaim, PARTS_FROM, Return, ReturnVerdict,
    ScheduledReturn,
};
use saline_targeting::{Target, TargetKind};

use super::minion::return_report;
use crate::authorize::Principal;
use crate::bounds::TokenBuckets;
use crate::clock::MasterClock;
use crate::events::Events;
use crate::jobs::{CarriedOut, JobFunction, JobStore, NewJob, StoreError};

/// Stores calls, each as a job of its own.
#[derive(Debug, Clone)]
pub(crate) struct CallStore {
    pub(crate) clock: MasterClock,
    pub(crate) identity: Arc<Identity>,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) limiter: Arc<TokenBuckets<MinionId>>,
    pub(crate) events: Events,
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
        self.store(id, called, None).await
    }

    /// Stores the return of a job of the minion's schedule.
    pub(super) async fn scheduled(
        &self,
        id: &MinionId,
        scheduled: ScheduledReturn,
    ) -> Result<CallStored, StoreError> {
        let ScheduledReturn {
            called,
            schedule,
            metadata,
        } = scheduled;
        self.store(id, called, Some((schedule, metadata))).await
    }

    async fn store(
        &self,
        id: &MinionId,
        called: CallerReturn,
        scheduled: Option<(String, Option<Packed>)>,
    ) -> Result<CallStored, StoreError> {
        let (schedule, metadata) = scheduled.unzip();
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
            metadata: metadata.flatten(),
            returners: Vec::new(),
        };
        if let CarriedOut::Before(published) = self.jobs.publish(new).await? {
            match published.jid {
                Some(before) if self.is_of(&before, id).await? => jid = before,
                // Another peer's request has this number.
                _ => return Ok(CallStored::Refused),
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
        report.schedule = schedule;
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
