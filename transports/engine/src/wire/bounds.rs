//! The lengths that a frame may have, by its kind, the side that reads it, and the limits.

use saline_protocol::transport::{Limits, MAX_BYTES};

use super::frame::{FrameKind, Violation};
use super::greeting::{LONGEST, SHORTEST};

/// The most bytes of one filter in a subscription.
const FILTER: usize = 1 + 2 + MAX_BYTES;

/// The frames that one side may be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    server: bool,
    max_message: usize,
    filters: usize,
    /// The greeting has been read.
    pub(super) greeted: bool,
}

impl Bounds {
    /// Returns what a server takes from clients: from one that is not admitted yet, no payload above
    /// the limits for those.
    pub(crate) fn server(limits: &Limits) -> Self {
        Self {
            server: true,
            max_message: match &limits.admission {
                Some(admission) => admission.max_message.min(limits.max_message),
                None => limits.max_message,
            },
            filters: limits.subscriptions_per_connection,
            greeted: false,
        }
    }

    /// Returns what a client takes from its server.
    pub(crate) fn client(limits: &Limits) -> Self {
        Self {
            server: false,
            max_message: limits.max_message,
            ..Self::server(limits)
        }
    }

    /// Takes payloads of up to `max_message` bytes from now on.
    pub(crate) fn set_max_message(&mut self, max_message: usize) {
        self.max_message = max_message;
    }

    /// Checks that a body of `length` bytes is possible.
    pub(super) fn check(
        &self,
        kind: Option<FrameKind>,
        length: usize,
    ) -> Result<FrameKind, Violation> {
        let Some(kind) = kind else {
            return Err(Violation("a frame of an unknown kind"));
        };
        let (from_client, least, most) = match kind {
            FrameKind::Greeting => (self.server, SHORTEST, LONGEST),
            FrameKind::Full => (false, 0, 0),
            FrameKind::Request => (true, 8, self.max_message.saturating_add(8)),
            FrameKind::Reply => (false, 8, self.max_message.saturating_add(8)),
            FrameKind::NoReply | FrameKind::Subscribed | FrameKind::SubscriptionRefused => {
                (false, 8, 8)
            }
            FrameKind::Unsubscribe => (true, 8, 8),
            FrameKind::Subscribe => (
                true,
                10,
                self.filters.saturating_mul(FILTER).saturating_add(10),
            ),
            FrameKind::Publication => (false, 3, self.max_message.saturating_add(2 + MAX_BYTES)),
            FrameKind::Lagged => (false, 16, 16),
            FrameKind::Ping => (self.server, 0, 0),
        };
        let first = matches!(kind, FrameKind::Greeting | FrameKind::Full);
        if first == self.greeted {
            Err(Violation("a frame out of its turn"))
        } else if from_client != self.server {
            Err(Violation("a frame that this side is not sent"))
        } else if length < least || length > most {
            Err(Violation("a frame of an impossible length"))
        } else {
            Ok(kind)
        }
    }
}
