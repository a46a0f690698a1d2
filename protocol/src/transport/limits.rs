//! The bounds and time-outs that a backend keeps to.

use std::time::Duration;

/// One kibibyte and one mebibyte, in bytes.
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The bounds of a server for a peer that nobody above has [admitted](super::ServerControl::admitted)
/// yet, so that a stranger costs little. A peer that sends more, or stays longer, is cut and counted
/// as [`Metric::PeersRefused`](super::Metric::PeersRefused) (`LIM-015` to `LIM-017`).
///
/// A client of the same backend is told of them, and keeps to them until it is told that it is
/// admitted: what is larger waits in it, and is sent then (`LIM-019`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdmissionLimits {
    /// The largest payload of a request, in bytes. 64 KiB.
    pub max_message: usize,
    /// How long a connection may stand without being admitted. 10 s.
    pub time: Duration,
    /// Bytes of requests that have not arrived as a whole, over all connections that are not
    /// admitted. A connection whose bytes go beyond it is cut, if it holds more than a few KiB itself, so
    /// that nobody keeps out those who send little. 16 MiB.
    pub partial_bytes: usize,
    /// Topics that the connection may be subscribed to; the client announces more of its
    /// subscriptions when it is admitted (`LIM-022`). 16.
    pub subscriptions: usize,
    /// Publications that wait for the connection before it loses some, which is told and counted as
    /// ever (`LIM-020`). 64.
    pub queue_messages: usize,
    /// Bytes of publications that wait for it before it loses some; and bytes of answers that wait for
    /// it before nothing more is read from it. 64 KiB.
    pub queue_bytes: usize,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        Self {
            max_message: 64 * KIB,
            time: Duration::from_secs(10),
            partial_bytes: 16 * MIB,
            subscriptions: 16,
            queue_messages: 64,
            queue_bytes: 64 * KIB,
        }
    }
}

/// Every bound that a backend needs. They come from the configuration, and from the conformance
/// suite with short times, so that no backend has numbers of its own. A count of zero or a time of
/// none asks for nothing that a backend could give; whoever makes limits leaves both out.
///
/// Each end keeps to its own. The [layer](crate::layer) keeps
/// [`max_message`](Self::max_message) of what is sent, [`requests_in_flight`](Self::requests_in_flight)
/// and the number of topics of one `subscribe`; all else is the backend's.
///
/// No queue of a backend is without bound. Where one is full, it waits for room (requests, answers), or
/// drops for one slow subscriber alone and says so (publications).
///
/// ```
/// use std::time::Duration;
/// use saline_protocol::transport::Limits;
///
/// let mut limits = Limits::default();
/// limits.ping_interval = Duration::from_secs(1);
/// assert_eq!(limits.max_message, 64 << 20);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The largest payload in bytes, of a request, a reply and a publication alike, on every backend
    /// to the byte (`LIM-001` to `LIM-003`). What announces more is refused before
    /// anything is allocated for it. In the configuration it is `max_message_size`; 64 MiB.
    pub max_message: usize,
    /// Requests that one client may have in flight or queued; further callers wait for a permit, in
    /// their order (`LIM-005`). 1,024.
    pub requests_in_flight: usize,
    /// Requests that one server has handed out and that are not answered; at so many it stops reading
    /// more, and the clients wait (`LIM-004`). 16,384.
    pub requests_unanswered: usize,
    /// The longest time for which either side stays silent: an end that has written nothing for so long
    /// sends a ping. A peer that is gone without a FIN is noticed within two of these: by the client
    /// always, by the server where it can tell who left (`CON-026`, a `SHOULD`). A large message on its
    /// way is no silence (`LIM-010`). 5 s.
    pub ping_interval: Duration,
    /// How long `connect` tries before it says `Unreachable`, all addresses and the handshake together;
    /// each attempt to reconnect may take as long. A backend whose clients wait in line for their server may give more
    /// after an attempt that nobody answered. 5 s.
    pub connect_timeout: Duration,
    /// How long a peer may take for the whole of the backend's own handshake before the server closes
    /// its connection, however busy it is with it (`SEC-004`, `SEC-007`). 5 s.
    pub handshake_timeout: Duration,
    /// Messages that wait for one slow subscriber before it loses some. 1,024.
    pub subscriber_queue_messages: usize,
    /// Bytes that wait for one slow subscriber before it loses some. 16 MiB. A single message
    /// above this is still delivered to a queue that is empty.
    pub subscriber_queue_bytes: usize,
    /// Connections that one server holds at once; it takes no other until one has gone (`LIM-011`). A
    /// backend may cut a connection that is not admitted to make room for one from
    /// another source, and counts it as [`Metric::PeersRefused`](super::Metric::PeersRefused). 65,536.
    pub connections: usize,
    /// Descriptors that the connections of one server may take together, also those that have not shaken hands
    /// (`LIM-021`). What a process keeps back for its files and its other servers is not part of it. A backend
    /// whose connections share one descriptor has no use for it. `None` sets none.
    pub descriptors: Option<usize>,
    /// Topics that one connection may be subscribed to, all of its subscribers together (`LIM-008`); the
    /// server refuses a subscription above it, and does not cut the connection (`CON-035`).
    /// 1,024.
    pub subscriptions_per_connection: usize,
    /// What a server allows a peer before it is admitted, on backends that declare
    /// [`admission`](super::Capabilities::admission). `None` sets no limits of
    /// its own, which is right where nothing above tells who is admitted. `None`.
    pub admission: Option<AdmissionLimits>,
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
            connections: 65_536,
            descriptors: None,
            subscriptions_per_connection: 1024,
            admission: None,
        }
    }
}
