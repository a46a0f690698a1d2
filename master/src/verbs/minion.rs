//! Carries out the requests of minions.

use std::sync::Arc;
use std::time::Duration;

use saline_data::Packed;
use saline_data::printable::number_of;
use saline_messages::{
    Class, DecodeError, EventTag, FunctionsReport, GrainsReport, Jid, JobEvent, MAX_ACCOUNTS,
    MAX_EVENTS, MAX_RETURNS, MAX_STARTED, MineRequest, MinionId, MinionJobState, MinionReply,
    MinionRequest, PARTS_FROM, PillarRequest, PlannedEnd, RefusedVerb, Return, ReturnPart,
    ReturnVerdict, ScheduledReturn,
};

use super::call_store::CallStore;
use crate::bounds::{Accounts, TokenBuckets};
use crate::clock::MasterClock;
use crate::events::{Events, MAX_EVENT_RETURN, MinionEventFirer, ReturnReport};
use crate::fileserver::FileServer;
use crate::functions::{FunctionsTable, FunctionsTaken};
use crate::grains::{GrainsTable, GrainsTaken};
use crate::job_signer::JobSigner;
use crate::jobs::{JobStore, PartOutcome, StoreError};
use crate::mine::{Mine, MineAnswer};
use crate::peers::PresenceReporter;
use crate::pillar::{PillarAnswer, Pillars};
use crate::publisher::MinionPublisher;
use crate::sessions::{Session, SessionState, Sessions};

/// How long a minion is asked to wait after the job store failed.
const STORE_FAILED_MS: u32 = 2000;

/// How long a minion is asked to wait while another request of it fires events.
pub(super) const FIRING_DELAY: Duration = Duration::from_millis(100);

/// How long a minion is asked to wait when there is no room for a large return.
pub(super) const NO_ROOM: Duration = Duration::from_secs(2);

/// Carries out the requests of minions.
#[derive(Debug)]
pub struct MinionVerbs {
    pub(crate) clock: MasterClock,
    /// How often a minion sends a heartbeat, in milliseconds.
    pub(crate) heartbeat_ms: u64,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) signer: JobSigner,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) publisher: MinionPublisher,
    pub(crate) grains: Arc<GrainsTable>,
    pub(crate) functions: Arc<FunctionsTable>,
    pub(crate) minion_events: MinionEventFirer,
    /// What each minion may ask for: the dispatch has drawn on it for every request that comes here.
    pub(crate) accounts: Arc<Accounts>,
    /// Limits what minions cause in the log.
    pub(crate) limiter: Arc<TokenBuckets<MinionId>>,
    pub(crate) presence: PresenceReporter,
    pub(crate) events: Events,
    pub(crate) files: FileServer,
    pub(crate) pillars: Pillars,
    pub(crate) mine: Mine,
    /// Makes the jobs of what the minion's schedule ran.
    pub(crate) calls: CallStore,
}

impl MinionVerbs {
    /// Says in the log that a minion sent what is no request, if it was not said a moment ago.
    pub fn report_malformed(&self, id: &MinionId, class: Class, error: &DecodeError) {
        if self.limiter.allows(id) {
            tracing::warn!("minion {id} sent a request that cannot be decoded ({class}): {error}");
        }
    }

    /// Carries out the request of the minion `id` in `session`.
    pub async fn carry_out(
        &self,
        session: &Arc<Session>,
        id: &MinionId,
        request: MinionRequest,
    ) -> MinionReply {
        // The others are boxed, so that the future of the most frequent request stays small.
        let done = match request {
            MinionRequest::Returns(returns)
                if returns.len() <= MAX_RETURNS && !returns.iter().any(must_travel_in_parts) =>
            {
                self.store_returns(id, returns).await
            }
            other => Box::pin(self.carry_out_other(session, id, other)).await,
        };
        done.unwrap_or_else(|error| {
            tracing::error!("minion {id}: the job store failed: {error}");
            MinionReply::Busy {
                after_ms: STORE_FAILED_MS,
            }
        })
    }

    async fn carry_out_other(
        &self,
        session: &Arc<Session>,
        id: &MinionId,
        request: MinionRequest,
    ) -> Result<MinionReply, StoreError> {
        match request {
            // The listener answers polls: it knows the address of its publications.
            MinionRequest::Poll => Ok(MinionReply::Refused(RefusedVerb::Malformed)),
            MinionRequest::Heartbeat(heartbeat) => {
                let reply = self.heartbeat(session, id, heartbeat).await?;
                Ok(MinionReply::Heartbeat(reply))
            }
            MinionRequest::Reconcile(said) if said.accounts.len() > MAX_ACCOUNTS => {
                Ok(MinionReply::Refused(RefusedVerb::Malformed))
            }
            MinionRequest::Reconcile(said) => self.reconcile(session, id, said).await,
            MinionRequest::Accounts(accounts) if accounts.len() > MAX_ACCOUNTS => {
                Ok(MinionReply::Refused(RefusedVerb::Malformed))
            }
            MinionRequest::Accounts(accounts) => {
                let changes = self.jobs.take_accounts(id, None, &accounts).await?;
                self.report(id, changes).await;
                Ok(MinionReply::Done)
            }
            MinionRequest::Started(jids) if jids.len() > MAX_STARTED => {
                Ok(MinionReply::Refused(RefusedVerb::Malformed))
            }
            MinionRequest::Started(jids) => self.started(id, &jids).await,
            // Too many in one request, or one that must travel in parts: others are stored already.
            MinionRequest::Returns(_) => Ok(MinionReply::Refused(RefusedVerb::Malformed)),
            MinionRequest::ReturnPart(part) => self.store_part(id, part).await,
            MinionRequest::Declined { jid } => self.declined(id, &jid).await,
            MinionRequest::Claim { jid } => {
                let granted = self.jobs.claim(id, &jid).await?;
                tracing::debug!("job {jid}: minion {id} claims it: {granted}");
                if granted {
                    // Of a batch, whose minion waited until now.
                    self.events
                        .job_state(&jid, id, MinionJobState::Offered)
                        .await;
                }
                Ok(MinionReply::Claimed(granted))
            }
            MinionRequest::PendingJobs { after, bytes } => {
                self.pending_jobs(id, after, bytes).await
            }
            MinionRequest::FireEvents(events) if events.events.len() > MAX_EVENTS => {
                Ok(MinionReply::Refused(RefusedVerb::Malformed))
            }
            MinionRequest::FireEvents(events) => {
                let origin = session.event_origin();
                match self.minion_events.fire(origin, id, events).await? {
                    true => Ok(MinionReply::Done),
                    false => Ok(MinionReply::busy(FIRING_DELAY)),
                }
            }
            MinionRequest::Files(request) => Ok(self.files.answer(id, request).await),
            MinionRequest::Pillar(request) => Ok(self.pillar(session, id, request).await),
            MinionRequest::Mine(request) => Ok(self.mine(session, id, request).await),
            MinionRequest::Scheduled(returned) if returned.run.is_within_bounds() => {
                self.store_scheduled(id, returned).await
            }
            MinionRequest::Scheduled(_) => Ok(MinionReply::Refused(RefusedVerb::Malformed)),
            MinionRequest::Grains(report) => Ok(self.take_grains(session, id, &report)),
            MinionRequest::Functions(report) => Ok(self.take_functions(session, id, &report)),
            MinionRequest::Goodbye(planned) => {
                let why = match planned {
                    Some(PlannedEnd::Reboot) => ": its machine reboots, as was planned",
                    Some(PlannedEnd::PowerOff) => ": its machine shuts down, as was planned",
                    None => "",
                };
                tracing::info!("minion {id} says goodbye{why}");
                self.sessions.leave(session, planned);
                self.presence.gone(std::slice::from_ref(id)).await;
                Ok(MinionReply::Done)
            }
        }
    }

    /// Gives a minion its pillar.
    async fn pillar(
        &self,
        session: &Session,
        id: &MinionId,
        request: PillarRequest,
    ) -> MinionReply {
        let answer = self.pillars.answer(id, request).await;
        // Looked at after it was compiled and kept: whoever deletes the minion's key ends the session first, and then forgets
        // the pillar.
        if session.state() == SessionState::KeyGone {
            self.pillars.forget(id);
            return MinionReply::Refused(RefusedVerb::KeyGone);
        }
        match answer {
            PillarAnswer::Reply(reply) => MinionReply::Pillar(reply),
            PillarAnswer::Busy(delay) => MinionReply::busy(delay),
            PillarAnswer::Malformed => MinionReply::Refused(RefusedVerb::Malformed),
        }
    }

    /// Takes what a minion leaves in the mine, or gives it what others have left.
    async fn mine(&self, session: &Session, id: &MinionId, request: MineRequest) -> MinionReply {
        let answer = self.mine.answer(id, request).await;
        // Looked at after it was stored: whoever deletes the minion's key ends the session first, and then forgets its entries.
        if session.state() == SessionState::KeyGone {
            self.mine.forget_removed(id).await;
            return MinionReply::Refused(RefusedVerb::KeyGone);
        }
        match answer {
            MineAnswer::Reply(reply) => MinionReply::Mine(reply),
            MineAnswer::Busy(delay) => MinionReply::busy(delay),
            MineAnswer::Malformed => MinionReply::Refused(RefusedVerb::Malformed),
        }
    }

    /// Takes the grains of a minion into the table.
    fn take_grains(&self, session: &Session, id: &MinionId, report: &GrainsReport) -> MinionReply {
        let taken = self.grains.take(id, report);
        // Looked at after they were taken: whoever deletes the minion's key ends the session first, and then
        // forgets the grains.
        if session.state() == SessionState::KeyGone {
            self.grains.forget(id);
            return MinionReply::Refused(RefusedVerb::KeyGone);
        }
        if report.grains.is_some() && matches!(taken, GrainsTaken::Known) {
            tracing::info!("minion {id} reported its grains");
        }
        match taken {
            GrainsTaken::Known => MinionReply::Done,
            GrainsTaken::Wanted => MinionReply::SendAll,
            GrainsTaken::Refused(error) => {
                if self.limiter.allows(id) {
                    tracing::warn!("the grains of minion {id} are not taken: {error}");
                }
                MinionReply::Refused(RefusedVerb::Malformed)
            }
        }
    }

    /// Takes the functions of a minion for its session.
    fn take_functions(
        &self,
        session: &Session,
        id: &MinionId,
        report: &FunctionsReport,
    ) -> MinionReply {
        let taken = self.functions.take(report);
        // What was reported before is wrong in any case.
        session.set_functions(match &taken {
            FunctionsTaken::Known(functions) => Some(Arc::clone(functions)),
            FunctionsTaken::Wanted | FunctionsTaken::Refused(_) => None,
        });
        match taken {
            FunctionsTaken::Known(_) => MinionReply::Done,
            FunctionsTaken::Wanted => MinionReply::SendAll,
            FunctionsTaken::Refused(error) => {
                if self.limiter.allows(id) {
                    tracing::warn!("the functions of minion {id} are not taken: {error}");
                }
                MinionReply::Refused(RefusedVerb::Malformed)
            }
        }
    }

    async fn started(&self, id: &MinionId, jids: &[Jid]) -> Result<MinionReply, StoreError> {
        for jid in jids {
            if self
                .jobs
                .set_state(jid, id, MinionJobState::Running)
                .await?
            {
                tracing::info!("job {jid}: minion {id} runs it");
                self.events.job_started(jid, id).await;
            }
        }
        Ok(MinionReply::Done)
    }

    async fn declined(&self, id: &MinionId, jid: &Jid) -> Result<MinionReply, StoreError> {
        if self
            .jobs
            .set_state(jid, id, MinionJobState::Declined)
            .await?
        {
            tracing::info!("job {jid}: minion {id} declined it");
            self.events.job_declined(jid, id).await;
        }
        Ok(MinionReply::Done)
    }

    /// Commits returns, fires their events, and acknowledges them.
    async fn store_returns(
        &self,
        id: &MinionId,
        returns: Vec<Return>,
    ) -> Result<MinionReply, StoreError> {
        let reports: Vec<_> = returns
            .iter()
            .map(|r| (r.jid.clone(), ReturnReport::of(r)))
            .collect();
        #[cfg(feature = "chaos")]
        if saline_daemon::sabotage::is_on("ack-before-commit") {
            return Ok(self.acknowledge_before_commit(id, returns));
        }
        let verdicts = self.jobs.store_returns(id, returns).await?;
        for ((jid, report), verdict) in reports.into_iter().zip(&verdicts) {
            self.report_verdict(&jid, id, report, *verdict).await;
        }
        Ok(MinionReply::Verdicts(verdicts))
    }

    async fn report_verdict(
        &self,
        jid: &Jid,
        id: &MinionId,
        report: ReturnReport,
        verdict: ReturnVerdict,
    ) {
        match verdict {
            ReturnVerdict::Stored => Box::pin(self.report_return(jid, id, report)).await,
            ReturnVerdict::Duplicate => tracing::debug!("job {jid}: minion {id} returned again"),
            ReturnVerdict::UnknownJob | ReturnVerdict::NotOffered | ReturnVerdict::Disputed => {
                if self.limiter.allows(id) {
                    tracing::warn!("job {jid}: a return of minion {id} was refused: {verdict}");
                }
            }
        }
    }

    /// Logs a stored return and fires its event, both with the function of the job: what the minion says of
    /// that is not passed on.
    async fn report_return(&self, jid: &Jid, id: &MinionId, mut report: ReturnReport) {
        let tag = EventTag::Job(jid.clone(), JobEvent::Returned(id.clone()));
        if !tracing::enabled!(tracing::Level::INFO) && !self.events.wanted(&tag) {
            return;
        }
        report.call = self.jobs.function_of(jid).await.unwrap_or_else(|error| {
            tracing::error!("job {jid}: its function was not read: {error}");
            None
        });
        let fun = report.call.as_ref().map_or("its job", |call| &call.fun);
        let retcode = report.retcode;
        tracing::info!("job {jid}: minion {id} returned from {fun}, retcode {retcode}");
        self.events.job_returned(jid, id, report).await;
    }

    /// Breaks the promise that an acknowledged return is on the disk.
    #[cfg(feature = "chaos")]
    fn acknowledge_before_commit(&self, id: &MinionId, returns: Vec<Return>) -> MinionReply {
        let verdicts = vec![ReturnVerdict::Stored; returns.len()];
        let (jobs, id) = (Arc::clone(&self.jobs), id.clone());
        #[allow(
            clippy::disallowed_methods,
            reason = "what breaks a promise has no owner"
        )]
        tokio::spawn(async move {
            let clock = saline_protocol::transport::Clock;
            clock.pause(std::time::Duration::from_secs(2)).await;
            // Nobody waits for it.
            let _ = jobs.store_returns(&id, returns).await;
        });
        MinionReply::Verdicts(verdicts)
    }

    /// Commits a part of a large return, and fires the event of the return when it is whole.
    async fn store_part(&self, id: &MinionId, part: ReturnPart) -> Result<MinionReply, StoreError> {
        let (jid, total) = (part.jid.clone(), part.part.total);
        let mut report = ReturnReport {
            call: None,
            retcode: part.retcode,
            success: part.success,
            payload: None,
        };
        Ok(match self.jobs.store_return_part(id, part).await? {
            PartOutcome::Received(bytes) => {
                // Its report of the beginning may not have come, or have come too late.
                self.started(id, std::slice::from_ref(&jid)).await?;
                MinionReply::Received(bytes)
            }
            PartOutcome::Busy => {
                tracing::debug!("job {jid}: no part of a return of minion {id} is taken now");
                MinionReply::busy(NO_ROOM)
            }
            PartOutcome::Malformed => MinionReply::Refused(RefusedVerb::Malformed),
            PartOutcome::Verdict(verdict) => {
                if verdict == ReturnVerdict::Stored {
                    report.payload = self.payload_for_event(&jid, id, total).await;
                }
                self.report_verdict(&jid, id, report, verdict).await;
                MinionReply::Verdicts(vec![verdict])
            }
        })
    }

    /// Returns the payload of `total` bytes of a stored return that came in parts, for its event; none when it is too large for
    /// that, or nobody wants the event.
    async fn payload_for_event(&self, jid: &Jid, id: &MinionId, total: u64) -> Option<Packed> {
        let tag = EventTag::Job(jid.clone(), JobEvent::Returned(id.clone()));
        // A larger return is not sent over the bus: clients read it from the store.
        if total > MAX_EVENT_RETURN as u64 || !self.events.wanted(&tag) {
            return None;
        }
        let read = self.jobs.payload_of(jid, id, MAX_EVENT_RETURN).await;
        read.unwrap_or_else(|error| {
            // The event is fired all the same: the return is stored.
            tracing::debug!(
                "job {jid}: the return of minion {id} was not read for its event: {error}"
            );
            None
        })
    }

    /// Commits the return of a job of the minion's schedule, or a part of it.
    async fn store_scheduled(
        &self,
        id: &MinionId,
        returned: ScheduledReturn,
    ) -> Result<MinionReply, StoreError> {
        let ScheduledReturn {
            run,
            retcode,
            success,
            part,
        } = returned;
        let fun = run.fun.clone();
        let Some(jid) = self.calls.scheduled(id, run).await? else {
            return Ok(MinionReply::Refused(RefusedVerb::Malformed));
        };
        if part.is_whole() && part.bytes.len() <= PARTS_FROM {
            let returned = Return {
                jid,
                fun,
                retcode,
                success,
                payload: Packed::from_bytes(part.bytes),
            };
            return self.store_returns(id, vec![returned]).await;
        }
        let part = ReturnPart {
            jid,
            retcode,
            success,
            part,
        };
        self.store_part(id, part).await
    }

    async fn pending_jobs(
        &self,
        id: &MinionId,
        after: Option<Jid>,
        bytes: u64,
    ) -> Result<MinionReply, StoreError> {
        let now = self.clock.now();
        let page = self.jobs.pending_jobs(id, after.as_ref(), now, bytes);
        let mut page = page.await?;
        page.jobs = page
            .jobs
            .into_iter()
            .map(|signed| self.signer.sign_again(signed))
            .collect();
        if !page.jobs.is_empty() {
            tracing::info!(
                "minion {id} asks for {} that it missed",
                number_of(page.jobs.len(), "job")
            );
        }
        Ok(MinionReply::Jobs(page))
    }
}

/// Whether the payload of a return is too large for a request with returns.
fn must_travel_in_parts(returned: &Return) -> bool {
    returned.payload.as_bytes().len() > PARTS_FROM
}
