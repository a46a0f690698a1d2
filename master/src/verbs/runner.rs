//! The verb that begins, ends and reads runs of runners and wheels. A run may take minutes: the operator asks again with the same
//! request id until it has ended.

use std::sync::Arc;
use std::time::Duration;

use saline_channel::record::OVERHEAD;
use saline_messages::{
    EndedRun, OperatorReply, RefusedVerb, RequestId, RunnerReply, RunnerRequest,
};
use saline_protocol::transport::Context;

use crate::authorize::{About, Action, Principal};
use crate::decisions::Decisions;
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
        mut request: RunnerRequest,
    ) -> Result<OperatorReply, StoreError> {
        let owner = principal.owner();
        let find = |request_id: RequestId| self.runners.find(&owner, request_id);
        let (mut secrets, mut warnings) = (None, Vec::new());
        let action = match &mut request {
            RunnerRequest::Run(call) => {
                // A request that is repeated to wait is about a run that was allowed.
                if find(call.request_id).is_none() {
                    // Before anything is written about the run.
                    secrets = match self.runners.set_secrets_apart(call) {
                        Ok(secrets) => secrets,
                        Err(error) => return Ok(OperatorReply::Failed(error.to_string())),
                    };
                    warnings = match self.decisions.decide_run(principal, call).await {
                        Ok(warnings) => warnings,
                        Err(why) => return Ok(OperatorReply::NotAllowed(why)),
                    };
                }
                None
            }
            RunnerRequest::Part { .. }
            | RunnerRequest::Kill { .. }
            | RunnerRequest::Keep { .. } => Some(Action::OwnRun),
        };
        if let Some(action) = action {
            let authorizer = &self.decisions.authorizer;
            if let Err(refusal) = authorizer.authorize(principal, action, About::Nothing) {
                return Ok(OperatorReply::NotAllowed(refusal.line));
            }
        }
        let reply = match request {
            RunnerRequest::Run(call) => {
                let is_async = call.is_async;
                match self.runners.begin(principal, call, secrets, warnings) {
                    Ok(run) => return Ok(self.wait(&run, is_async).await),
                    Err(why) => RunnerReply::Refused(why),
                }
            }
            RunnerRequest::Part { request_id, offset } => {
                let end = find(request_id).and_then(|run| run.end());
                let part = end.map(|end| end.part(offset, self.part_size()));
                let part = part.filter(|part| !part.bytes.is_empty());
                part.map_or(RunnerReply::NoSuchRun, RunnerReply::Part)
            }
            RunnerRequest::Kill { request_id } => match find(request_id) {
                Some(run) => {
                    tracing::info!("{} {}: {} ends it", run.kind, run.jid, principal.log_name());
                    run.kill.cancel();
                    RunnerReply::Done(run.jid.clone())
                }
                None => RunnerReply::NoSuchRun,
            },
            RunnerRequest::Keep { request_id } => match find(request_id) {
                Some(run) => {
                    self.runners.keep(&run).await?;
                    RunnerReply::Done(run.jid.clone())
                }
                None => RunnerReply::NoSuchRun,
            },
        };
        Ok(OperatorReply::Runner(reply))
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
