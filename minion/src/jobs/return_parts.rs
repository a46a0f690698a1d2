//! Sends the payload of a large return in parts, each after the answer to the one before, so that heartbeats and other
//! returns pass between them. After a new session, and after a restart of either side, it goes on where the master says.

use std::time::Duration;

use saline_messages::{Class, MAX_PART, MinionReply, MinionRequest, Outgoing, Return, ReturnPart};
use saline_protocol::transport::{Clock, ErrorKind};

use crate::link::minion_session::{AskError, MinionSession};

/// How long the answer to one part may take.
const PART_TIMEOUT: Duration = Duration::from_secs(60);

/// The sizes of a part in bytes: the smallest, which is the first, because a heartbeat waits behind it on a link that
/// nothing is known of; and the largest, where the master takes it.
const SIZES: (usize, usize) = (8 * 1024, MAX_PART);

/// A part that took longer is followed by a smaller one: whatever waits behind it waits as long.
const SLOW: Duration = Duration::from_millis(500);

/// A part that took less is followed by one of twice its size.
const QUICK: Duration = Duration::from_millis(100);

/// A part that took less is followed by one of four times its size.
const VERY_QUICK: Duration = Duration::from_millis(20);

/// The number of answers in a row that may say that nothing new has arrived.
const STANDSTILLS: u32 = 3;

/// Sends a return in parts of at most `most` bytes until the master answers something else than how much it has.
///
/// # Errors
/// See [`AskError`]. What arrived is kept by the master for a while.
///
/// # Cancel safety
/// As after an error.
pub(super) async fn send_in_parts(
    session: &MinionSession,
    returned: &Return,
    most: usize,
) -> Result<MinionReply, AskError> {
    let whole = Outgoing::new(returned.payload.as_bytes().to_vec());
    let (total, most) = (returned.payload.as_bytes().len() as u64, most.min(SIZES.1));
    // The answer to the first part says what the master has already.
    let (mut offset, mut size, mut standstills) = (0, SIZES.0.min(most), 0);
    loop {
        let part = MinionRequest::ReturnPart(ReturnPart {
            jid: returned.jid.clone(),
            retcode: returned.retcode,
            success: returned.success,
            part: whole.part(offset, size),
        });
        let sent = Clock.now();
        let received = match session.ask(Class::Return, &part, PART_TIMEOUT).await {
            Ok(MinionReply::Received(received)) => received,
            Err(AskError::Transport(error))
                if error.kind() == ErrorKind::TimedOut && size > SIZES.0 =>
            {
                // The link is slow: what did not arrive in a minute may arrive in smaller parts.
                size = SIZES.0;
                continue;
            }
            answer => return answer,
        };
        size = next_size(size, Clock.now() - sent).min(most);
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

/// Returns the size of the next part, after one of this size took this time.
fn next_size(size: usize, took: Duration) -> usize {
    match took {
        took if took > SLOW => (size / 2).max(SIZES.0),
        took if took < VERY_QUICK => (size * 4).min(SIZES.1),
        took if took < QUICK => (size * 2).min(SIZES.1),
        _ => size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fit_the_link() {
        let after = |size, milliseconds| next_size(size, Duration::from_millis(milliseconds));
        assert_eq!(after(SIZES.0, 10), 4 * SIZES.0);
        assert_eq!(after(SIZES.0, 20), 2 * SIZES.0);
        assert_eq!(after(SIZES.1, 10), SIZES.1);
        assert_eq!(after(SIZES.1 / 2, 10), SIZES.1);
        assert_eq!(after(SIZES.0, 300), SIZES.0);
        assert_eq!(after(4 * SIZES.0, 501), 2 * SIZES.0);
        assert_eq!(after(SIZES.0, 60_000), SIZES.0);
    }
}
