//! Asks for the jobs that the minion missed.

use std::time::Duration;

use saline_channel::publication::verify_job;
use saline_messages::{Class, MinionReply, MinionRequest};

use super::session_loop::{ActiveSession, RETRY_DELAY};
use crate::jobs::job_runner::Origin;
use crate::link::message_size::MessageSize;
use crate::link::minion_session::{AskError, Ended};

/// How long a page may take: a single job is as large as the master takes it, and the link may be slow.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

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
            let mut size = MessageSize::new(self.parts.host.max_payload());
            loop {
                let request = MinionRequest::PendingJobs {
                    after: after.clone(),
                    bytes: size.bytes() as u64,
                };
                let sent = clock.now();
                match self.session.ask(Class::Event, &request, PAGE_TIMEOUT).await {
                    Ok(MinionReply::Jobs(page)) => {
                        size.answered_after(clock.now() - sent);
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
                        size.timed_out();
                        tracing::debug!("cannot ask for missed jobs: {error}");
                        clock.pause(RETRY_DELAY).await;
                    }
                }
            }
        }
    }
}
