//! The schedule of the master: runs runners by the clock, each for a principal of its own.

use std::sync::Arc;

use saline_messages::random;
use saline_messages::{Arguments, RequestId, RunKind, RunnerCall};
use saline_protocol::transport::Context;
use saline_schedule::{Due, RunGuard, Scheduler};

use crate::authorize::Principal;
use crate::decisions::Decisions;
use crate::runners::Runners;

/// Runs the jobs of the master's schedule.
#[derive(Debug, Clone)]
pub(crate) struct MasterSchedule {
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) runners: Runners,
    pub(crate) decisions: Decisions,
    pub(crate) context: Context,
}

impl MasterSchedule {
    /// Begins runs when they are due, for as long as the master runs.
    pub(crate) async fn run(self) {
        let (scheduler, context) = (Arc::clone(&self.scheduler), self.context.clone());
        let begin = move |due: Due, guard: RunGuard| {
            let this = self.clone();
            self.context
                .spawn(async move { this.carry_out(due, guard).await });
        };
        scheduler.run(context, begin).await;
    }

    /// Runs the runner of a job to its end. The guard counts the run until then.
    async fn carry_out(&self, due: Due, _guard: RunGuard) {
        let name = &due.name;
        if let Err(why) = self.begin_and_wait(&due).await {
            tracing::error!("schedule: {name} did not run {}: {why}", due.entry.function);
        }
    }

    async fn begin_and_wait(&self, due: &Due) -> Result<(), String> {
        let principal = Principal::Schedule(due.name.clone());
        let arguments = Arguments {
            positional: due.entry.args.clone(),
            named: due.entry.kwargs.clone(),
        };
        let no_randomness = |error: random::NoRandomness| error.to_string();
        let mut call = RunnerCall {
            request_id: RequestId::random().map_err(no_randomness)?,
            kind: RunKind::Runner,
            fun: due.entry.function.clone(),
            arg: arguments.pack(),
            user: principal.owner(),
            timeout_ms: None,
            // The job store keeps the return, since nobody waits for it.
            is_async: due.entry.return_job,
        };
        let secrets = self.runners.set_secrets_apart(&mut call);
        let secrets = secrets.map_err(no_randomness)?;
        let warnings = self.decisions.decide_run(&principal, &call).await?;
        let run = self.runners.begin(&principal, call, secrets, warnings)?;
        run.ended().await;
        Ok(())
    }
}
