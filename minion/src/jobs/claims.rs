//! Whether a job may begin now: whether it has expired, and, where that or the offer is unclear, what the master says.

use std::sync::Arc;
use std::time::Duration;

use saline_messages::{Class, Job, MinionReply, MinionRequest};
use saline_protocol::transport::{Context, jitter};
use tokio_util::sync::CancellationToken;

use crate::link::current_session::CurrentSession;
use crate::link::master_time::MasterTimeEstimate;
use crate::link::minion_session::{AskError, MinionSession};

/// How long the answer to a claim may take.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay before a claim without an answer is repeated.
const CLAIM_RETRY: Duration = Duration::from_millis(500);

/// Decides whether jobs may begin.
#[derive(Debug)]
pub struct Claims {
    /// Asks the master.
    pub session: CurrentSession,
    /// Tells whether a job has expired.
    pub clock: Arc<MasterTimeEstimate>,
    /// Cancelled when no more jobs are taken.
    pub draining: CancellationToken,
    /// Gives the time between two claims.
    pub context: Context,
}

impl Claims {
    /// Whether the job has expired.
    pub fn is_late(&self, job: &Job) -> bool {
        let late = self.clock.reached().is_some_and(|now| now > job.expires);
        if late {
            tracing::warn!("job {}: not begun, it has expired", job.jid);
        }
        late
    }

    /// Whether the job may have expired while this machine was paused, so that the master is asked first.
    pub fn may_be_late(&self, job: &Job) -> bool {
        let unclear = self.clock.may_have_passed(job.expires);
        if unclear {
            tracing::info!(
                "job {}: the master is asked first whether it has expired, since the clock of this machine jumped: it was \
                 paused, or its clock was set",
                job.jid
            );
        }
        unclear
    }

    /// Asks the master whether the job may begin. Without a session it may not: the next one begins with
    /// the question what was missed.
    pub async fn claim(&self, job: &Job) -> bool {
        let jid = job.jid.clone();
        let request = MinionRequest::Claim { jid: jid.clone() };
        loop {
            let Some(session) = self.session.get() else {
                return false;
            };
            let wait = match session.ask(Class::Event, &request, CLAIM_TIMEOUT).await {
                Ok(MinionReply::Claimed(granted)) => {
                    if !granted {
                        tracing::info!("job {jid}: not begun, the master does not offer it now");
                    }
                    return granted;
                }
                // Another session may have taken its place, and been offered the job while this was asked: it is not
                // offered again.
                Err(AskError::Ended) if self.has_another_session(&session) => continue,
                Ok(_) | Err(AskError::Ended) => return false,
                Err(AskError::Busy(after)) => after,
                Err(_) => CLAIM_RETRY,
            };
            if self.draining.is_cancelled() || self.is_late(job) {
                return false;
            }
            self.context.clock.pause(wait + jitter(wait)).await;
        }
    }

    fn has_another_session(&self, than: &Arc<MinionSession>) -> bool {
        let now = self.session.get();
        now.is_some_and(|session| !Arc::ptr_eq(&session, than))
    }
}
