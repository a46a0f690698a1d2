//! The bounds and time-outs that a backend keeps to.

use std::time::Duration;

/// One mebibyte, in bytes.
const MIB: usize = 1024 * 1024;

/// Every bound that a backend needs. They come from the configuration, and from the conformance
/// suite with short times, so that no backend has numbers of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The largest payload in bytes, of a request, a reply and a publication alike. Salt's operators
    /// know it as `max_message_size`; 64 MiB by default.
    pub max_message: usize,
    /// Requests that one client may have in flight or queued; further callers wait for a permit. 1,024.
    pub requests_in_flight: usize,
    /// Requests that one server holds unanswered before it stops reading more. 16,384.
    pub requests_unanswered: usize,
    /// How often an idle link is pinged. A peer that is gone without a FIN is noticed within two
    /// of these, on both sides. 5 s.
    pub ping_interval: Duration,
    /// How long `connect` tries before it says `Unreachable`. 5 s.
    pub connect_timeout: Duration,
    /// How long a peer may take for the backend's own handshake. 5 s.
    pub handshake_timeout: Duration,
    /// Messages that wait for one slow subscriber before it loses some. 1,024.
    pub subscriber_queue_messages: usize,
    /// Bytes that wait for one slow subscriber before it loses some. 16 MiB. A single message
    /// above this is still delivered to a queue that is empty.
    pub subscriber_queue_bytes: usize,
    /// Connections that one server holds at once. 16,384.
    pub connections: usize,
    /// Subscriptions that one connection may hold. 1,024.
    pub subscriptions_per_connection: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_message: 64 * MIB,
            requests_in_flight: 1024,
            requests_unanswered: 16_384,
            ping_interval: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(5),
            subscriber_queue_messages: 1024,
            subscriber_queue_bytes: 16 * MIB,
            connections: 16_384,
            subscriptions_per_connection: 1024,
        }
    }
}
