//! Sends the returns of scheduled jobs to the master, one after the other: they never take the way of a return that an operator
//! waits for.

use std::sync::Arc;
use std::time::Duration;

use saline_data::{Packed, Value};
use saline_messages::{
    Arguments, CallerReturn, Class, Jid, MinionReply, MinionRequest, Return, ScheduledReturn,
};
use saline_modules::Host;
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

/// The bytes of a request beside its payload, arguments and metadata: names, which are bounded, and numbers.
const ROOM_FOR_NAMES: usize = 1_024;

/// Sends the returns of scheduled jobs.
#[derive(Debug)]
pub struct ScheduledSender {
    pub(super) spool: Arc<Spool>,
    pub(super) host: Arc<Host>,
    pub(super) session: CurrentSession,
    pub(super) pool: Pool,
    pub(super) context: Context,
}

impl ScheduledSender {
    /// Creates a sender.
    pub fn new(
        spool: Arc<Spool>,
        host: Arc<Host>,
        session: CurrentSession,
        pool: Pool,
        context: Context,
    ) -> Self {
        Self {
            spool,
            host,
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
        let message = fit(to_message(call, returned), self.host.max_payload());
        let request = MinionRequest::Scheduled(message);
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

/// Returns the message, or one that says why it cannot be sent: no request has room for more than `limit` bytes.
fn fit(mut message: ScheduledReturn, limit: usize) -> ScheduledReturn {
    let limit = limit.saturating_sub(ROOM_FOR_NAMES);
    let size = |message: &ScheduledReturn| {
        let metadata = message.metadata.as_ref();
        message.called.payload.as_bytes().len()
            + message.called.arg.as_packed().as_bytes().len()
            + metadata.map_or(0, |metadata| metadata.as_bytes().len())
    };
    let bytes = size(&message);
    if bytes <= limit {
        return message;
    }
    let why = format!("a return of {bytes} bytes is above the limit of {limit} bytes");
    tracing::error!("scheduled job {}: {why}", message.schedule);
    message.called.retcode = 1;
    message.called.success = false;
    message.called.payload = Packed::pack(&Value::from(format!("ERROR: {why}")));
    if size(&message) > limit {
        // The payload is not what is too large.
        message.called.arg = Arguments::default().pack();
        message.metadata = None;
    }
    message
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

#[cfg(test)]
mod tests {
    use saline_messages::RequestId;

    use super::*;

    /// A message whose payload, arguments and metadata have about these lengths.
    fn message(payload: usize, arguments: usize, metadata: usize) -> ScheduledReturn {
        let text = |length| Value::from("x".repeat(length));
        let arguments = Arguments {
            positional: vec![text(arguments)],
            ..Arguments::default()
        };
        ScheduledReturn {
            called: CallerReturn {
                request_id: RequestId([1; 16]),
                fun: "f".repeat(saline_messages::MAX_CALL_NAME),
                arg: arguments.pack(),
                user: user_of(&"s".repeat(saline_messages::MAX_SCHEDULE_NAME)),
                retcode: 0,
                success: true,
                payload: Packed::pack(&text(payload)),
            },
            schedule: "s".repeat(saline_messages::MAX_SCHEDULE_NAME),
            metadata: Some(Packed::pack(&text(metadata))),
        }
    }

    #[test]
    fn a_return_above_the_limit_of_the_master_is_replaced_by_one_that_says_so() {
        let limit = 8_192;
        let fits = message(5_000, 1_000, 1_000);
        assert_eq!(fit(fits.clone(), limit), fits);
        for (payload, arguments, metadata) in [
            (9_000, 10, 10),
            (5_000, 2_000, 2_000),
            (10, 9_000, 10),
            (10, 10, 9_000),
        ] {
            let large = message(payload, arguments, metadata);
            let sent = fit(large.clone(), limit);
            assert_eq!((sent.called.retcode, sent.called.success), (1, false));
            let said = sent.called.payload.unpack().unwrap();
            let said = said.as_str().unwrap();
            assert!(
                said.starts_with("ERROR: a return of ")
                    && said.ends_with(" bytes is above the limit of 7168 bytes"),
                "{said}"
            );
            assert_eq!(sent.called.request_id, large.called.request_id);
            let whole = saline_messages::encode(&MinionRequest::Scheduled(sent));
            assert!(whole.len() <= limit, "{} bytes", whole.len());
        }
        // The names have room beside the largest return that is sent as it is.
        let most = limit - ROOM_FOR_NAMES - 20;
        let whole =
            saline_messages::encode(&MinionRequest::Scheduled(fit(message(most, 0, 0), limit)));
        assert!(
            (most..=limit).contains(&whole.len()),
            "{} bytes",
            whole.len()
        );
    }
}
