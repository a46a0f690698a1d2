//! Sends the returns of scheduled jobs to the master, one after the other: they never take the way of a return that an operator
//! waits for.

use std::sync::Arc;
use std::time::Duration;

use saline_messages::{
    CallerReturn, Class, Jid, MinionReply, MinionRequest, Return, ScheduledReturn,
};
use saline_protocol::transport::{Context, jitter};

use super::pool::Pool;
use crate::link::current_session::CurrentSession;
use crate::link::minion_session::AskError;
use crate::spool::{ScheduledCall, Spool};

/// How long the master may take to store a return.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The delay before a return without an answer is sent again.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// The delay before a return that cannot be read from the spool is tried again.
const UNREADABLE_DELAY: Duration = Duration::from_secs(60);

/// Sends the returns of scheduled jobs.
#[derive(Debug)]
pub struct ScheduledSender {
    pub(super) spool: Arc<Spool>,
    pub(super) session: CurrentSession,
    pub(super) pool: Pool,
    pub(super) context: Context,
}

impl ScheduledSender {
    /// Creates a sender.
    pub fn new(spool: Arc<Spool>, session: CurrentSession, pool: Pool, context: Context) -> Self {
        Self {
            spool,
            session,
            pool,
            context,
        }
    }

    /// Sends what the spool holds, for as long as the minion exists.
    pub async fn run(self) {
        let mut sessions = self.session.subscribe();
        loop {
            // An error means that every other part of the minion has ended.
            if sessions.wait_for(Option::is_some).await.is_err() {
                return;
            }
            let Some((jid, call)) = self.spool.take_unsent_scheduled() else {
                self.spool.scheduled_returned().await;
                continue;
            };
            if let Some(wait) = self.send(&jid, call).await {
                self.context.clock.pause(wait + jitter(wait)).await;
                self.spool.put_back_scheduled(&jid);
            }
        }
    }

    /// Sends a return. Returns how long it takes until it is to be sent again; none when it is done.
    async fn send(&self, jid: &Jid, call: ScheduledCall) -> Option<Duration> {
        let session = match self.session.get() {
            Some(session) => session,
            None => return Some(RETRY_DELAY),
        };
        let returned = match self.read(jid).await {
            Ok(Some(returned)) => returned,
            // It was dropped meanwhile.
            Ok(None) => return None,
            Err(error) => {
                tracing::error!("job {jid}: its return cannot be read from the spool: {error}");
                return Some(UNREADABLE_DELAY);
            }
        };
        let schedule = call.schedule.clone();
        let request = MinionRequest::Scheduled(to_message(call, returned));
        match session.ask(Class::Return, &request, ANSWER_TIMEOUT).await {
            Ok(MinionReply::Verdicts(_)) => tracing::info!("job {jid}: acknowledged"),
            Err(AskError::Busy(after)) => return Some(after),
            Err(AskError::Refused(why)) => {
                // Sent again it would be refused again.
                tracing::error!(
                    "scheduled job {schedule}: the master does not store its return: {why}"
                );
            }
            Ok(_) | Err(AskError::Unreadable(_)) => return Some(UNREADABLE_DELAY),
            Err(error) => {
                tracing::debug!("job {jid}: its return was not acknowledged: {error}");
                return Some(RETRY_DELAY);
            }
        }
        let (spool, jids) = (Arc::clone(&self.spool), vec![jid.clone()]);
        let number = session.number;
        // None means that the runtime is going down: the master knows the return when it comes again.
        let _ = self
            .pool
            .run_io(move || spool.done(&jids, None, number))
            .await;
        None
    }

    async fn read(&self, jid: &Jid) -> std::io::Result<Option<Return>> {
        let (spool, copy) = (Arc::clone(&self.spool), jid.clone());
        let read = self.pool.run_io(move || spool.read(&copy)).await;
        read.unwrap_or(Ok(None))
    }
}

fn to_message(call: ScheduledCall, returned: Return) -> ScheduledReturn {
    ScheduledReturn {
        called: CallerReturn {
            request_id: call.request_id,
            fun: call.fun,
            arg: call.arg,
            user: user_of(&call.schedule),
            retcode: returned.retcode,
            success: returned.success,
            payload: returned.payload,
        },
        schedule: call.schedule,
        metadata: call.metadata,
    }
}

/// Returns the user of the job of this name, for the record.
fn user_of(schedule: &str) -> String {
    let mut user = format!("schedule {schedule}");
    let most = saline_messages::MAX_CALL_NAME;
    while user.len() > most {
        user.pop();
    }
    user
}
