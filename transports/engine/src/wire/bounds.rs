//! The lengths that a frame may have, by its kind, the side that reads it, and the limits.

use saline_protocol::transport::{Limits, MAX_TOPIC_BYTES};

use super::frame::{FrameKind, Violation};
use super::greeting::{LONGEST, SHORTEST};

/// The most bytes of one filter in a subscription.
const FILTER: usize = 1 + 2 + MAX_TOPIC_BYTES;

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
    /// Returns what a server takes from clients: from one that is not admitted yet, nothing above the
    /// limits for those.
    pub(crate) fn server(limits: &Limits) -> Self {
        let mut bounds = Self {
            server: true,
            max_message: limits.max_message,
            filters: limits.subscriptions_per_connection,
            greeted: false,
        };
        if let Some(admission) = &limits.admission {
            bounds.max_message = bounds.max_message.min(admission.max_message);
            bounds.filters = bounds.filters.min(admission.subscriptions);
        }
        bounds
    }

    /// Returns what a client takes from its server.
    pub(crate) fn client(limits: &Limits) -> Self {
        Self {
            server: false,
            max_message: limits.max_message,
            filters: limits.subscriptions_per_connection,
            greeted: false,
        }
    }

    /// Takes what a client may send that is admitted, from now on.
    pub(crate) fn admit(&mut self, limits: &Limits) {
        self.max_message = limits.max_message;
        self.filters = limits.subscriptions_per_connection;
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
            FrameKind::Publication => (
                false,
                3,
                self.max_message.saturating_add(2 + MAX_TOPIC_BYTES),
            ),
            FrameKind::Lagged => (false, 16, 16),
            FrameKind::Ping => (self.server, 0, 0),
            FrameKind::Admitted => (false, 0, 0),
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

#[cfg(test)]
mod tests {
    use super::*;
    use saline_protocol::transport::AdmissionLimits;

    fn limits() -> Limits {
        let mut limits = Limits::default();
        limits.max_message = 1000;
        limits.subscriptions_per_connection = 3;
        limits
    }

    /// The lengths between which a body of `kind` is taken, if any is.
    fn lengths(mut bounds: Bounds, greeted: bool, kind: FrameKind) -> Option<(usize, usize)> {
        bounds.greeted = greeted;
        let is_taken = |length: &usize| bounds.check(Some(kind), *length).is_ok();
        let taken: Vec<usize> = (0..10_000).filter(is_taken).collect();
        let (least, most) = (*taken.first()?, *taken.last()?);
        assert_eq!(taken.len(), most - least + 1, "{kind:?}");
        Some((least, most))
    }

    #[test]
    fn each_side_takes_its_frames_in_their_lengths_and_turns() {
        for kind in FrameKind::ALL {
            let (server, client) = match kind {
                FrameKind::Greeting => (Some((21, 4096)), Some((21, 4096))),
                FrameKind::Full => (None, Some((0, 0))),
                FrameKind::Request => (Some((8, 1008)), None),
                FrameKind::Reply => (None, Some((8, 1008))),
                FrameKind::NoReply | FrameKind::Subscribed | FrameKind::SubscriptionRefused => {
                    (None, Some((8, 8)))
                }
                FrameKind::Unsubscribe => (Some((8, 8)), None),
                // A count, and three filters of the longest topic.
                FrameKind::Subscribe => (Some((10, 10 + 3 * (3 + 512))), None),
                FrameKind::Publication => (None, Some((3, 1000 + 2 + 512))),
                FrameKind::Lagged => (None, Some((16, 16))),
                FrameKind::Ping => (Some((0, 0)), Some((0, 0))),
                FrameKind::Admitted => (None, Some((0, 0))),
            };
            let is_first = matches!(kind, FrameKind::Greeting | FrameKind::Full);
            for (bounds, expected) in [
                (Bounds::server(&limits()), server),
                (Bounds::client(&limits()), client),
            ] {
                assert_eq!(lengths(bounds, !is_first, kind), expected, "{kind:?}");
                assert_eq!(lengths(bounds, is_first, kind), None, "{kind:?}");
            }
        }
        assert!(Bounds::client(&limits()).check(None, 0).is_err());
    }

    #[test]
    fn who_is_not_admitted_may_send_less() {
        let longest = |bounds, kind| lengths(bounds, true, kind).map(|(_, most)| most);
        let largest = |bounds| longest(bounds, FrameKind::Request);
        let mut limits = limits();
        let mut admission = AdmissionLimits::default();
        (admission.max_message, admission.subscriptions) = (100, 2);
        limits.admission = Some(admission.clone());
        let mut bounds = Bounds::server(&limits);
        assert_eq!(largest(bounds), Some(108));
        let subscribe = FrameKind::Subscribe;
        assert_eq!(longest(bounds, subscribe), Some(10 + 2 * (3 + 512)));
        bounds.admit(&limits);
        assert_eq!(largest(bounds), Some(1008));
        assert_eq!(longest(bounds, subscribe), Some(10 + 3 * (3 + 512)));
        // A client is told of no peer's admission.
        let reply = lengths(Bounds::client(&limits), true, FrameKind::Reply);
        assert_eq!(reply, Some((8, 1008)));
        admission.max_message = 2000;
        limits.admission = Some(admission);
        assert_eq!(largest(Bounds::server(&limits)), Some(1008));
    }
}
