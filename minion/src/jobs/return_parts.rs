//! Sends the payload of a return in parts, each after the answer to the one before, so that heartbeats and other
//! returns pass between them. After a new session, and after a restart of either side, it goes on where the master says.

use std::time::Duration;

use saline_messages::{
    Class, MinionReply, MinionRequest, Outgoing, Return, ReturnPart, ScheduledReturn, ScheduledRun,
};
use saline_protocol::transport::{Clock, ErrorKind};

use crate::link::message_size::MessageSize;
use crate::link::minion_session::{AskError, MinionSession};

/// How long the answer to one part may take.
const PART_TIMEOUT: Duration = Duration::from_secs(60);

/// The number of answers in a row that may say that nothing new has arrived.
const STANDSTILLS: u32 = 3;

/// Sends a return, which is that of a `scheduled` run or of a published job, in parts of this size until the master answers
/// something else than how much it has.
///
/// # Errors
/// See [`AskError`]. What arrived is kept by the master for a while.
///
/// # Cancel safety
/// As after an error.
pub(super) async fn send_in_parts(
    session: &MinionSession,
    returned: &Return,
    scheduled: Option<&ScheduledRun>,
    mut size: MessageSize,
) -> Result<MinionReply, AskError> {
    let whole = Outgoing::new(returned.payload.clone().into_bytes());
    let total = whole.bytes().len() as u64;
    // The answer to the first part says what the master has already.
    let (mut offset, mut standstills) = (0, 0);
    loop {
        let part = whole.part(offset, size.bytes());
        let (retcode, success) = (returned.retcode, returned.success);
        let part = match scheduled {
            Some(run) => MinionRequest::Scheduled(ScheduledReturn {
                run: run.clone(),
                retcode,
                success,
                part,
            }),
            None => MinionRequest::ReturnPart(ReturnPart {
                jid: returned.jid.clone(),
                retcode,
                success,
                part,
            }),
        };
        let sent = Clock.now();
        let received = match session.ask(Class::Return, &part, PART_TIMEOUT).await {
            Ok(MinionReply::Received(received)) => received,
            Err(AskError::Transport(error))
                if error.kind() == ErrorKind::TimedOut && size.timed_out() =>
            {
                // The link is slow: what did not arrive in a minute may arrive in smaller parts.
                continue;
            }
            answer => return answer,
        };
        size.answered_after(Clock.now() - sent);
        standstills = if received > offset {
            0
        } else {
            standstills + 1
        };
        if received >= total || standstills > STANDSTILLS {
            // No master says so that keeps to the protocol.
            return Ok(MinionReply::Received(received));
        }
        offset = received;
    }
}
