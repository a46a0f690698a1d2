//! The verb that begins, ends and reads runs of runners and wheels. A run may take minutes: the operator asks again with the same
//! request id until it has ended.

use std::sync::Arc;
use std::time::Duration;

use saline_channel::record::OVERHEAD;
use saline_messages::{
    EndedRun, OperatorReply, OrderWarning, RefusedVerb, RequestId, RunnerCall, RunnerReply,
    RunnerRequest,
};
use saline_protocol::transport::Context;

use crate::authorize::{About, Action, Principal};
use crate::decisions::{Decisions, Details};
use crate::jobs::StoreError;
use crate::runners::{Phase, RunState, Runners};

/// How long a request waits for the end of a run. A stopping master waits for its requests.
const WAIT: Duration = Duration::from_secs(2);

/// The bytes of a message that a part of an end leaves free for its seal and its other fields.
const PART_OVERHEAD: usize = OVERHEAD + 256;

/// Carries out the requests of operators about runners.
#[derive(Debug)]
pub struct RunnerVerb {
    pub(crate) decisions: Decisions,
    pub(crate) context: Context,
    /// The largest message in bytes.
    pub(crate) max_message: usize,
    pub(crate) runners: Runners,
}

impl RunnerVerb {
    /// Carries out the request of a principal.
    pub(crate) async fn carry_out(
        &self,
        principal: &Principal,
        request: RunnerRequest,
    ) -> Result<OperatorReply, StoreError> {
        let owner = principal.owner();
        let find = |request_id: RequestId| self.runners.find(&owner, request_id);
        let authorizer = &self.decisions.authorizer;
        // Whether it may begin is decided when the call is known.
        let is_about_own = !matches!(request, RunnerRequest::Run(_));
        if is_about_own
            && let Err(refusal) = authorizer.authorize(principal, Action::OwnRun, About::Nothing)
        {
            return Ok(OperatorReply::NotAllowed(refusal.line));
        }
        let reply = match request {
            RunnerRequest::Run(call) => {
                let is_known = find(call.request_id).is_some();
                return Ok(self.run(principal, call, is_known).await);
            }
            RunnerRequest::Part { request_id, offset } => {
                let end = find(request_id).and_then(|run| run.end());
                let part = end.map(|end| end.part(offset, self.part_size()));
                let part = part.filter(|part| !part.bytes.is_empty());
                part.map_or(RunnerReply::NoSuchRun, RunnerReply::Part)
            }
            RunnerRequest::Kill { request_id } => match find(request_id) {
                Some(run) => RunnerReply::Ending(self.kill(principal, request_id, &run).await),
                None => RunnerReply::NoSuchRun,
            },
            RunnerRequest::Keep { request_id } => match find(request_id) {
                Some(run) => {
                    self.runners.keep(&run).await?;
                    RunnerReply::Kept(run.jid.clone())
                }
                None => RunnerReply::NoSuchRun,
            },
        };
        Ok(OperatorReply::Runner(reply))
    }

    /// Begins a run, or waits for one that is known by its request.
    async fn run(
        &self,
        principal: &Principal,
        mut call: RunnerCall,
        is_known: bool,
    ) -> OperatorReply {
        let (mut secrets, mut warnings) = (None, Vec::new());
        // A request that is repeated to wait is about a run that was allowed.
        if !is_known {
            // Before anything is written about the run.
            secrets = match self.runners.set_secrets_apart(&mut call) {
                Ok(secrets) => secrets,
                Err(error) => return OperatorReply::Failed(error.to_string()),
            };
            warnings = match self.decisions.decide_run(principal, &call).await {
                Ok(warnings) => warnings,
                Err(why) => return OperatorReply::NotAllowed(why),
            };
        }
        let is_async = call.is_async;
        match self.runners.begin(principal, call, secrets, warnings) {
            Ok(run) => self.wait(&run, is_async).await,
            Err(why) => OperatorReply::Runner(RunnerReply::Refused(why)),
        }
    }

    /// Ends a run of the principal before it is done. Returns what the principal is warned of.
    async fn kill(
        &self,
        principal: &Principal,
        request_id: RequestId,
        run: &RunState,
    ) -> Vec<OrderWarning> {
        // A request that is repeated, or that comes after the end, ends nothing.
        if run.kill.is_cancelled() || run.end().is_some() {
            return Vec::new();
        }
        run.kill.cancel();
        tracing::info!("{} {}: {} ends it", run.kind, run.jid, principal.log_name());
        let details = Details {
            function: Some(&run.fun),
            subject: Some(format!("run {}", run.jid)),
            request: Some(request_id),
            ..Details::default()
        };
        self.decisions
            .note_end(principal, "end its own run", "its own", details)
            .await
    }

    /// Waits until the run has ended, or has begun if it is asynchronous, but not for long.
    async fn wait(&self, run: &Arc<RunState>, is_async: bool) -> OperatorReply {
        let mut phase = run.phase.subscribe();
        let is_reached = |phase: &Phase| match phase {
            Phase::Beginning => false,
            Phase::Running => is_async,
            _ => true,
        };
        let clock = self.context.clock;
        let reached = clock.deadline(clock.after(WAIT), phase.wait_for(is_reached));
        let phase = match reached.await {
            // The run has the sender.
            Err(_) | Ok(Err(_)) => Phase::Running,
            Ok(Ok(phase)) => phase.clone(),
        };
        OperatorReply::Runner(match phase {
            Phase::Beginning | Phase::Running => RunnerReply::Begun(run.jid.clone()),
            Phase::Ended(_) if is_async => RunnerReply::Begun(run.jid.clone()),
            Phase::Ended(end) => RunnerReply::Ended(EndedRun {
                jid: run.jid.clone(),
                part: end.part(0, self.part_size()),
            }),
            Phase::Failed(why) => return OperatorReply::Failed(why),
            // The operator asks the next master.
            Phase::Stopped if self.context.cancel.is_cancelled() => {
                return OperatorReply::Refused(RefusedVerb::ShuttingDown);
            }
            Phase::Stopped => return OperatorReply::Failed(format!("{} panicked", run.fun)),
        })
    }

    /// Returns the largest size of a part of an end in bytes.
    fn part_size(&self) -> usize {
        self.max_message.saturating_sub(PART_OVERHEAD).max(1_024)
    }
}
