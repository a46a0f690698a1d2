//! The frames of the wire: `length u32, kind u8, body`, little-endian, the length being the body's.
//!
//! | kind | sent by | body |
//! |---|---|---|
//! | 1 Greeting | both, first | see `greeting.rs` |
//! | 2 Full | server, instead of its greeting | |
//! | 3 Request | client | `id u64`, payload |
//! | 4 Reply | server | `id u64`, payload |
//! | 5 NoReply | server | `id u64` |
//! | 6 Subscribe | client | `id u64, count u16`, filters of `kind u8, length u16`, topic |
//! | 7 Subscribed | server | `id u64` |
//! | 8 SubscriptionRefused | server | `id u64` |
//! | 9 Unsubscribe | client | `id u64` |
//! | 10 Publication | server | `length u16`, topic, payload |
//! | 11 Lagged | server | `id u64, count u64` |
//! | 12 Ping | both | |
//! | 13 Admitted | server, to clients that want to hear it | |
//!
//! Whether a length is possible is decided by kind, side and limits from the first five bytes, and
//! memory for a body grows with the bytes that arrive.

use bytes::Bytes;
use saline_protocol::transport::TopicFilter;

/// The bytes of length and kind.
pub(crate) const HEADER: usize = 5;
/// The bytes of the number of a request.
pub(crate) const ID: usize = 8;
/// The bytes before the payload of a request or a reply.
pub(crate) const REQUEST_HEADER: usize = HEADER + ID;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    Greeting = 1,
    Full,
    Request,
    Reply,
    NoReply,
    Subscribe,
    Subscribed,
    SubscriptionRefused,
    Unsubscribe,
    Publication,
    Lagged,
    Ping,
    Admitted,
}

impl FrameKind {
    pub(crate) const ALL: [Self; 13] = [
        Self::Greeting,
        Self::Full,
        Self::Request,
        Self::Reply,
        Self::NoReply,
        Self::Subscribe,
        Self::Subscribed,
        Self::SubscriptionRefused,
        Self::Unsubscribe,
        Self::Publication,
        Self::Lagged,
        Self::Ping,
        Self::Admitted,
    ];

    /// Returns the kind that has this number.
    pub(crate) fn of(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// A peer broke the protocol: what it sent, as the log says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) &'static str);

/// Returns the length and the kind of a frame, as they stand in front of its body.
pub(crate) fn header(kind: FrameKind, body: usize) -> [u8; HEADER] {
    // Bodies are bounded by the declared capability, far below what the field takes.
    let [a, b, c, d] = u32::try_from(body).unwrap_or(u32::MAX).to_le_bytes();
    [a, b, c, d, kind as u8]
}

/// Returns the whole frame of a subscription.
pub(crate) fn subscribe(id: u64, filters: &[TopicFilter]) -> Bytes {
    let size = |filter: &TopicFilter| 3 + filter.topic().as_str().len();
    let body = 8 + 2 + filters.iter().map(size).sum::<usize>();
    let mut bytes = Vec::with_capacity(HEADER + body);
    bytes.extend_from_slice(&header(FrameKind::Subscribe, body));
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&(filters.len() as u16).to_le_bytes());
    for filter in filters {
        bytes.push(u8::from(matches!(filter, TopicFilter::Prefix(_))));
        let text = filter.topic().as_str().as_bytes();
        bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
        bytes.extend_from_slice(text);
    }
    bytes.into()
}
