//! Makes jobs of what is due in the minion's schedule, which run as those of the master do.

use std::sync::Arc;

use saline_data::Packed;
use saline_messages::random::NoRandomness;
use saline_messages::{
    Arguments, Job, MasterTime, MustClaim, RequestId, ScheduledRun, user_of_schedule,
};
use saline_modules::job::ScheduledCall;
use saline_schedule::{Due, RunGuard};
use saline_targeting::{Target, TargetKind};

use super::job_runner::JobRunner;
use super::run_job::JobToRun;
use crate::call::{Call, CallRequest};
use crate::own_jid::OwnJids;

/// Runs the jobs of a schedule.
#[derive(Debug)]
pub struct ScheduledJobs {
    runner: Arc<JobRunner>,
    jids: OwnJids,
}

impl ScheduledJobs {
    /// Creates the part that runs them with `runner`.
    pub fn new(runner: Arc<JobRunner>) -> Self {
        Self {
            runner,
            jids: OwnJids::default(),
        }
    }

    /// Begins a run that is due. Does not wait.
    pub fn begin(&self, due: &Due, guard: RunGuard) {
        if self.runner.draining.is_cancelled() {
            return;
        }
        let name = &due.name;
        let run = match self.to_job(due) {
            Ok(run) => run,
            Err(error) => {
                tracing::error!("scheduled job {name}: not run: {error}");
                return;
            }
        };
        let (jid, fun) = (&run.job.jid, &run.job.fun);
        tracing::info!("job {jid}: scheduled job {name} runs {fun}");
        let runner = Arc::clone(&self.runner);
        self.runner.jobs.spawn(async move {
            runner.run(run).await;
            drop(guard);
        });
    }

    fn to_job(&self, due: &Due) -> Result<JobToRun, NoRandomness> {
        let runner = &self.runner;
        let call = Call::new(
            &runner.modules.now(),
            CallRequest {
                fun: due.entry.function.clone(),
                arguments: Arguments {
                    positional: due.entry.args.clone(),
                    named: due.entry.kwargs.clone(),
                },
                user: user_of_schedule(&due.name),
                returners: Vec::new(),
            },
        )?;
        let run = ScheduledRun {
            request_id: RequestId::random()?,
            schedule: due.name.clone(),
            fun: call.request.fun.clone(),
            arg: call.stored_arguments(),
            metadata: due.entry.metadata.as_ref().map(Packed::pack),
        };
        let job = Job {
            jid: self.jids.next(runner.jobs.clock),
            target: Target {
                kind: TargetKind::List,
                expression: runner.id.to_string(),
            },
            fun: call.request.fun,
            arg: call.request.arguments.pack(),
            user: call.request.user,
            created: 0,
            // No master says until when it may begin.
            expires: MasterTime::MAX,
            claims: MustClaim::NOBODY,
        };
        Ok(JobToRun {
            job,
            secrets: call.secrets,
            scheduled: Some(ScheduledCall {
                run,
                return_job: due.entry.return_job,
            }),
        })
    }
}
