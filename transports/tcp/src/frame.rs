//! The bytes on the wire: frames of `length u32, kind u8, body`, little-endian, the length being the
//! body's.
//!
//! | kind | who | body |
//! |---|---|---|
//! | 1 Hello | both, first | `"saline", version u8, ping u32 (ms), largest payload u64` |
//! | 2 Full | server, instead of its Hello | |
//! | 3 Request | client | `id u64`, payload |
//! | 4 Reply | server | `id u64`, payload |
//! | 5 NoReply | server | `id u64` |
//! | 6 Subscribe | client | `id u64, count u16`, filters of `kind u8, length u16`, topic |
//! | 7 Subscribed | server | `id u64` |
//! | 8 Denied | server | `id u64` |
//! | 9 Unsubscribe | client | `id u64` |
//! | 10 Publication | server | `length u16`, topic, payload |
//! | 11 Lagged | server | `id u64, count u64` |
//! | 12 Ping | both | |
//!
//! Whether a length is possible is decided by kind, side and limits from the first five bytes, and
//! memory for a body grows with the bytes that arrive.

use std::time::Duration;

use bytes::{Buf, Bytes};
use saline_protocol::transport::{Limits, Topic, TopicFilter};

/// The version of everything here.
pub(crate) const VERSION: u8 = 1;
/// Length and kind.
pub(crate) const HEADER: usize = 5;
/// What comes before the payload of a request or a reply.
pub(crate) const REQUEST_HEADER: usize = HEADER + 8;

const MAGIC: &[u8; 6] = b"saline";
/// The body of a hello.
pub(crate) const HELLO: usize = MAGIC.len() + 1 + 4 + 8;

/// Payloads up to this size are copied into the frame of a publication.
const SMALL: usize = 16 * 1024;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Hello = 1,
    Full,
    Request,
    Reply,
    NoReply,
    Subscribe,
    Subscribed,
    Denied,
    Unsubscribe,
    Publication,
    Lagged,
    Ping,
}

impl Kind {
    pub(crate) const ALL: [Self; 12] = [
        Self::Hello,
        Self::Full,
        Self::Request,
        Self::Reply,
        Self::NoReply,
        Self::Subscribe,
        Self::Subscribed,
        Self::Denied,
        Self::Unsubscribe,
        Self::Publication,
        Self::Lagged,
        Self::Ping,
    ];

    /// The kind that has this number.
    pub(crate) fn of(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// A peer broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) &'static str);

/// What both sides say first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The version that it speaks.
    pub(crate) version: u8,
    /// How often it wants to hear something.
    pub(crate) ping: Duration,
    /// The largest payload that it takes.
    pub(crate) max_message: usize,
}

impl Hello {
    /// What these limits say to the other side.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            version: VERSION,
            ping: limits.ping_interval,
            max_message: limits.max_message,
        }
    }

    /// The whole frame.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + HELLO);
        bytes.extend_from_slice(&header(Kind::Hello, HELLO));
        bytes.extend_from_slice(MAGIC);
        bytes.push(self.version);
        let ping = u32::try_from(self.ping.as_millis()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&ping.to_le_bytes());
        bytes.extend_from_slice(&(self.max_message as u64).to_le_bytes());
        bytes
    }

    /// Reads its body.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Violation> {
        let mut rest = body
            .strip_prefix(MAGIC)
            .filter(|rest| rest.len() == HELLO - MAGIC.len())
            .ok_or(Violation("its hello is not one of ours"))?;
        Ok(Self {
            version: rest.get_u8(),
            ping: Duration::from_millis(rest.get_u32_le().into()),
            max_message: usize::try_from(rest.get_u64_le()).unwrap_or(usize::MAX),
        })
    }
}

/// A frame as it came in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Hello(Hello),
    Full,
    Request { id: u64, payload: Bytes },
    Reply { id: u64, payload: Bytes },
    NoReply(u64),
    Subscribe { id: u64, filters: Vec<TopicFilter> },
    Subscribed(u64),
    Denied(u64),
    Unsubscribe(u64),
    Publication { topic: Topic, payload: Bytes },
    Lagged { id: u64, count: u64 },
    Ping,
}

/// Length and kind of a frame.
pub(crate) fn header(kind: Kind, body: usize) -> [u8; HEADER] {
    // Bodies are bounded by the declared capability, far below what the field takes.
    let [a, b, c, d] = u32::try_from(body).unwrap_or(u32::MAX).to_le_bytes();
    [a, b, c, d, kind as u8]
}

/// A subscription's whole frame.
pub(crate) fn subscribe(id: u64, filters: &[TopicFilter]) -> Bytes {
    let size = |filter: &TopicFilter| 3 + filter.topic().as_str().len();
    let body = 8 + 2 + filters.iter().map(size).sum::<usize>();
    let mut bytes = Vec::with_capacity(HEADER + body);
    bytes.extend_from_slice(&header(Kind::Subscribe, body));
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

/// A publication, encoded once for all who get it.
#[derive(Debug, Clone)]
pub(crate) struct Publication {
    /// The frame, without the payload when that is large.
    pub(crate) head: Bytes,
    /// A large payload, which is not copied.
    pub(crate) tail: Bytes,
    /// The payload's size.
    pub(crate) size: usize,
}

impl Publication {
    pub(crate) fn new(topic: &Topic, payload: Bytes) -> Self {
        let text = topic.as_str().as_bytes();
        let size = payload.len();
        let inline = if size <= SMALL { size } else { 0 };
        let mut head = Vec::with_capacity(HEADER + 2 + text.len() + inline);
        head.extend_from_slice(&header(Kind::Publication, 2 + text.len() + size));
        head.extend_from_slice(&(text.len() as u16).to_le_bytes());
        head.extend_from_slice(text);
        let tail = if size <= SMALL {
            head.extend_from_slice(&payload);
            Bytes::new()
        } else {
            payload
        };
        Self {
            head: head.into(),
            tail,
            size,
        }
    }
}
