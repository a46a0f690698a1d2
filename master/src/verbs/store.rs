//! The verbs that copy and check the job store. They may take minutes: the operator asks again with the
//! same request id until they are done.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use saline_messages::{OperatorReply, RequestId, StoreAct};
use saline_protocol::transport::Context;
use tokio::sync::watch;

use crate::jobs::JobStore;

/// How long a request waits for the end.
const WAIT: Duration = Duration::from_secs(5);

/// When to ask again, in milliseconds: at once, since a request waits here.
const AGAIN_MS: u32 = 10;

/// Copies and checks the job store, one at a time.
#[derive(Debug)]
pub struct StoreVerbs {
    pub(crate) context: Context,
    pub(crate) jobs: Arc<JobStore>,
    /// The last one; it may be under way.
    pub(crate) last: Mutex<Option<StoreOperation>>,
}

/// An act that was begun.
#[derive(Debug)]
pub(crate) struct StoreOperation {
    request: RequestId,
    reply: watch::Receiver<Option<OperatorReply>>,
}

impl StoreVerbs {
    /// Carries out the request of `operator`, or returns `Busy` while it is under way.
    pub(super) async fn carry_out(
        &self,
        operator: &str,
        request: RequestId,
        act: StoreAct,
    ) -> OperatorReply {
        let (mut reply, is_ours) = self.begin(operator, request, act);
        let clock = self.context.clock;
        let ended = clock.deadline(clock.after(WAIT), reply.wait_for(Option::is_some));
        match ended.await {
            Ok(Ok(reply)) if is_ours => match &*reply {
                Some(reply) => reply.clone(),
                None => OperatorReply::Busy { after_ms: AGAIN_MS },
            },
            Ok(Err(_)) if is_ours => OperatorReply::Failed("the master stops".to_owned()),
            _ => OperatorReply::Busy { after_ms: AGAIN_MS },
        }
    }

    /// Returns where the reply of this request or of the one that is under way appears, and whether it is
    /// of this request.
    fn begin(
        &self,
        operator: &str,
        request: RequestId,
        act: StoreAct,
    ) -> (watch::Receiver<Option<OperatorReply>>, bool) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*last {
            let is_ours = running.request == request;
            // An error means that its task ended without a reply.
            let is_under_way =
                running.reply.borrow().is_none() && running.reply.has_changed().is_ok();
            if is_ours || is_under_way {
                return (running.reply.clone(), is_ours);
            }
        }
        tracing::info!("operator {operator}: {} begins", name(act));
        let (done, reply) = watch::channel(None);
        *last = Some(StoreOperation {
            request,
            reply: reply.clone(),
        });
        let jobs = Arc::clone(&self.jobs);
        self.context.spawn(async move {
            let ended = run(&jobs, act).await;
            // The operator may have gone.
            let _ = done.send(Some(ended));
        });
        (reply, true)
    }
}

async fn run(jobs: &JobStore, act: StoreAct) -> OperatorReply {
    let ended = match act {
        StoreAct::BackUp => jobs.back_up().await.map(OperatorReply::BackedUp),
        StoreAct::Check => jobs.check().await.map(OperatorReply::Checked),
    };
    match &ended {
        Ok(OperatorReply::BackedUp(copy)) => {
            let (files, bytes) = (copy.files, copy.bytes);
            tracing::info!("copied {files} files of {bytes} bytes to {}", copy.folder);
        }
        Ok(OperatorReply::Checked(check)) => {
            tracing::info!("{} problems of the job store", check.problems.len());
        }
        Ok(_) => {}
        Err(error) => tracing::error!("{}: {error}", name(act)),
    }
    ended.unwrap_or_else(|error| OperatorReply::Failed(error.to_string()))
}

/// Returns the function of `saline-run` that asks for this.
fn name(act: StoreAct) -> &'static str {
    match act {
        StoreAct::BackUp => "store.backup",
        StoreAct::Check => "store.check",
    }
}
