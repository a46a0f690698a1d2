//! Asks for the jobs that the minion missed.

use saline_channel::publication::verify_job;
use saline_messages::{Class, MinionReply, MinionRequest};

use super::session_loop::{ANSWER_TIMEOUT, ActiveSession, RETRY_DELAY};
use crate::jobs::job_runner::Origin;
use crate::link::minion_session::{AskError, Ended};

impl ActiveSession {
    /// Asks for missed jobs whenever `catch_up` is notified, until the master answers.
    pub(super) async fn catch_ups(&self) {
        let clock = self.parts.context.clock;
        loop {
            tokio::select! {
                () = self.catch_up.notified() => {}
                () = self.parts.jobs.has_room_again() => {}
            }
            let mut after = None;
            loop {
                let request = MinionRequest::PendingJobs {
                    after: after.clone(),
                };
                match self
                    .session
                    .ask(Class::Event, &request, ANSWER_TIMEOUT)
                    .await
                {
                    Ok(MinionReply::Jobs(page)) => {
                        after = page.jobs.last().map(|signed| signed.job.jid.clone());
                        for signed in page.jobs {
                            match verify_job(&self.session.session.master(), signed) {
                                Some((job, secrets)) => {
                                    self.parts.jobs.take(job, secrets, Origin::Own);
                                }
                                None => {
                                    tracing::warn!("ignored a job that the master did not sign")
                                }
                            }
                        }
                        if !page.more || after.is_none() {
                            break;
                        }
                    }
                    Ok(_) => {
                        self.session.end(Ended::Lost);
                        return;
                    }
                    Err(AskError::Ended) => return,
                    Err(AskError::Busy(after)) => clock.pause(after).await,
                    Err(error) => {
                        tracing::debug!("cannot ask for missed jobs: {error}");
                        clock.pause(RETRY_DELAY).await;
                    }
                }
            }
        }
    }
}
