//! Runs the jobs of the minion's schedule, beside those of the master: on the same threads, in the same table of running jobs,
//! and with returns in the same spool.

use std::sync::Arc;

use saline_data::Packed;
use saline_messages::{Arguments, Jid, MinionId, RequestId, Return};
use saline_protocol::transport::Context;
use saline_schedule::{Due, RunGuard};
use tokio_util::sync::CancellationToken;

use super::pool::Pool;
use crate::call::{Call, CallRequest};
use crate::own_jid::OwnJids;
use crate::spool::{ScheduledCall, Spool};
use saline_modules::job::{Entered, RunningJob};
use saline_modules::{Host, LiveModules, ended_before_start};

/// Runs the jobs of a schedule. Clones share everything.
#[derive(Debug, Clone)]
pub struct ScheduledJobs {
    pub(super) id: MinionId,
    pub(super) pool: Pool,
    pub(super) modules: Arc<LiveModules>,
    pub(super) host: Arc<Host>,
    pub(super) spool: Arc<Spool>,
    pub(super) jids: Arc<OwnJids>,
    pub(super) draining: CancellationToken,
    /// The context of the jobs, which a drain waits for.
    pub(super) jobs: Context,
}

impl ScheduledJobs {
    /// Begins a run that is due. Does not wait.
    pub fn begin(&self, due: Due, guard: RunGuard) {
        if self.draining.is_cancelled() {
            return;
        }
        let this = self.clone();
        self.jobs.spawn(async move {
            this.run(due).await;
            drop(guard);
        });
    }

    async fn run(&self, due: Due) {
        let (jid, name) = (self.jids.next(self.jobs.clock), due.name.clone());
        let request = CallRequest {
            fun: due.entry.function.clone(),
            arguments: Arguments {
                positional: due.entry.args.clone(),
                named: due.entry.kwargs.clone(),
            },
            user: format!("schedule {name}"),
        };
        let modules = self.modules.now();
        let blocks = modules.blocks(&request.fun);
        let call = Call::new(&modules, request);
        let (call, request_id) = match (call, RequestId::random()) {
            (Ok(call), Ok(request_id)) => (call, request_id),
            (Err(error), _) | (_, Err(error)) => {
                tracing::error!("scheduled job {name}: not run: {error}");
                return;
            }
        };
        let entered = self.host.running.enter(RunningJob {
            jid: jid.clone(),
            fun: call.request.fun.clone(),
            arg: call.request.arguments.to_salt(),
            target: self.id.to_string(),
            target_kind: "list",
            user: call.request.user.clone(),
            pid: std::process::id(),
        });
        let permit = tokio::select! {
            biased;
            () = self.draining.cancelled() => {
                tracing::warn!("scheduled job {name}: not begun, the minion stops");
                return;
            }
            ending = entered.control().ended() => {
                tracing::info!("scheduled job {name}: not begun, it was {ending}");
                return;
            }
            permit = async {
                match blocks {
                    true => self.pool.acquire().await,
                    false => self.pool.acquire_reserved().await,
                }
            } => permit,
        };
        tracing::info!("job {jid}: scheduled job {name} runs {}", call.request.fun);
        let (host, spool) = (Arc::clone(&self.host), Arc::clone(&self.spool));
        let scheduled = due.entry.return_job.then(|| ScheduledCall {
            request_id,
            schedule: name.clone(),
            fun: call.request.fun.clone(),
            arg: call.stored_arguments(),
            metadata: due.entry.metadata.as_ref().map(Packed::pack),
        });
        let copy = jid.clone();
        let work = move || match scheduled {
            Some(scheduled) => {
                spool.begin_scheduled(&copy, scheduled);
                let returned = carry_out(&host, &modules, &call, copy, &entered);
                let retcode = returned.retcode;
                spool.finish(returned);
                retcode
            }
            None => carry_out(&host, &modules, &call, copy, &entered).retcode,
        };
        match self.pool.run(permit, work).await {
            Some(0) => tracing::info!("job {jid}: scheduled job {name} has ended"),
            Some(retcode) => {
                tracing::warn!("job {jid}: scheduled job {name} failed, retcode {retcode}");
            }
            None => tracing::error!("job {jid}: the code that runs jobs panicked"),
        }
    }
}

/// Runs the function of a job on this thread.
fn carry_out(
    host: &Host,
    modules: &saline_modules::Modules,
    call: &Call,
    jid: Jid,
    entered: &Entered,
) -> Return {
    let fun = &call.request.fun;
    let outcome = match entered.control().begin() {
        Ok(()) => call.run(host, modules, entered.control()),
        Err(ending) => saline_modules::Outcome::of_failure(&ended_before_start(&ending), fun, ""),
    };
    let (retcode, payload) = outcome.pack(fun, host);
    Return {
        jid,
        fun: fun.clone(),
        retcode,
        success: retcode == 0,
        payload,
    }
}
