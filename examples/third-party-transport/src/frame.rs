//! What is in a binary message: a kind, fields in little-endian, and the rest.
//!
//! | kind | who | fields, rest |
//! |---|---|---|
//! | 1 Request | client | `id u64`, payload |
//! | 2 Reply | server | `id u64`, payload |
//! | 3 NoReply | server | `id u64` |
//! | 4 Subscribe | client | `id u64`, filters of `prefix u8, length u16, topic` |
//! | 5 Subscribed | server | `id u64` |
//! | 6 Denied | server | `id u64` |
//! | 7 Unsubscribe | client | `id u64` |
//! | 8 Publication | server | `length u16, topic`, payload |
//! | 9 Lagged | server | `id u64, count u64` |

use bytes::{Buf, BufMut, Bytes, BytesMut};
use saline_protocol::transport::{MAX_BYTES, Topic, TopicFilter};

/// The most bytes that stand before a payload.
pub(crate) const OVERHEAD: usize = 1 + 2 + MAX_BYTES;
/// Payloads up to this size are copied, so that a small one that is kept does not keep the buffer
/// that it was read into.
const SMALL: usize = 4096;

/// The other side broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) &'static str);

/// A message, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    Request { id: u64, payload: Bytes },
    Reply { id: u64, payload: Bytes },
    NoReply(u64),
    Subscribe { id: u64, filters: Vec<TopicFilter> },
    Subscribed(u64),
    Denied(u64),
    Unsubscribe(u64),
    Publication { topic: Topic, payload: Bytes },
    Lagged { id: u64, count: u64 },
}

/// A message's bytes: what stands before the payload, and the payload, which is not copied.
#[derive(Debug, Clone)]
pub(crate) struct Encoded {
    pub(crate) head: Bytes,
    pub(crate) payload: Bytes,
}

impl Encoded {
    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }
}

impl Frame {
    /// The message's bytes.
    pub(crate) fn encode(self) -> Encoded {
        let (head, payload) = match self {
            Self::Request { id, payload } => (numbered(1, id, &[]), payload),
            Self::Reply { id, payload } => (numbered(2, id, &[]), payload),
            Self::Publication { topic, payload } => {
                let mut head = BytesMut::with_capacity(OVERHEAD);
                head.put_u8(8);
                put_topic(&mut head, &topic);
                (head.freeze(), payload)
            }
            short => (short.encode_short(), Bytes::new()),
        };
        Encoded { head, payload }
    }

    /// The bytes of a message without a payload.
    fn encode_short(&self) -> Bytes {
        match self {
            Self::NoReply(id) => numbered(3, *id, &[]),
            Self::Subscribe { id, filters } => {
                let mut rest = BytesMut::new();
                for filter in filters {
                    rest.put_u8(u8::from(matches!(filter, TopicFilter::Prefix(_))));
                    put_topic(&mut rest, filter.topic());
                }
                numbered(4, *id, &rest)
            }
            Self::Subscribed(id) => numbered(5, *id, &[]),
            Self::Denied(id) => numbered(6, *id, &[]),
            Self::Unsubscribe(id) => numbered(7, *id, &[]),
            Self::Lagged { id, count } => numbered(9, *id, &count.to_le_bytes()),
            // Their heads are written by `encode`.
            Self::Request { .. } | Self::Reply { .. } | Self::Publication { .. } => Bytes::new(),
        }
    }

    /// Takes a message apart. Filters above `most` are a violation.
    pub(crate) fn decode(mut bytes: Bytes, most: usize) -> Result<Self, Violation> {
        const SHORT: Violation = Violation("a message that is too short");
        let kind = bytes.try_get_u8().map_err(|_| SHORT)?;
        if kind == 8 {
            let topic = get_topic(&mut bytes)?;
            let payload = unshared(bytes);
            return Ok(Self::Publication { topic, payload });
        }
        let id = bytes.try_get_u64_le().map_err(|_| SHORT)?;
        let frame = match kind {
            1 => {
                let payload = unshared(bytes);
                return Ok(Self::Request { id, payload });
            }
            2 => {
                let payload = unshared(bytes);
                return Ok(Self::Reply { id, payload });
            }
            3 => Self::NoReply(id),
            4 => {
                let mut filters = Vec::new();
                while bytes.has_remaining() {
                    if filters.len() == most {
                        return Err(Violation("a subscription to too many topics"));
                    }
                    let prefix = bytes.get_u8() != 0;
                    let topic = get_topic(&mut bytes)?;
                    filters.push(if prefix {
                        TopicFilter::Prefix(topic)
                    } else {
                        TopicFilter::Exact(topic)
                    });
                }
                Self::Subscribe { id, filters }
            }
            5 => Self::Subscribed(id),
            6 => Self::Denied(id),
            7 => Self::Unsubscribe(id),
            9 => {
                let count = bytes.try_get_u64_le().map_err(|_| SHORT)?;
                Self::Lagged { id, count }
            }
            _ => return Err(Violation("a message of an unknown kind")),
        };
        if bytes.has_remaining() {
            return Err(Violation("a message that is too long"));
        }
        Ok(frame)
    }
}

fn numbered(kind: u8, id: u64, rest: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(9 + rest.len());
    bytes.put_u8(kind);
    bytes.put_u64_le(id);
    bytes.extend_from_slice(rest);
    bytes.freeze()
}

fn put_topic(bytes: &mut BytesMut, topic: &Topic) {
    let text = topic.as_str();
    // A topic has at most 512 bytes.
    bytes.put_u16_le(u16::try_from(text.len()).unwrap_or(u16::MAX));
    bytes.extend_from_slice(text.as_bytes());
}

fn get_topic(bytes: &mut Bytes) -> Result<Topic, Violation> {
    const NONE: Violation = Violation("a topic that is none");
    let length = usize::from(bytes.try_get_u16_le().map_err(|_| NONE)?);
    if bytes.len() < length {
        return Err(NONE);
    }
    let text = bytes.split_to(length);
    let text = std::str::from_utf8(&text).map_err(|_| NONE)?;
    Topic::parse(text).map_err(|_| NONE)
}

fn unshared(payload: Bytes) -> Bytes {
    if payload.len() <= SMALL {
        Bytes::copy_from_slice(&payload)
    } else {
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(text: &str) -> Topic {
        text.parse().unwrap()
    }

    fn bytes(frame: &Frame) -> Bytes {
        let Encoded { head, payload } = frame.clone().encode();
        [head, payload].concat().into()
    }

    fn all() -> Vec<Frame> {
        let payload = Bytes::from_static(b"payload");
        vec![
            Frame::Request {
                id: 1,
                payload: payload.clone(),
            },
            Frame::Reply {
                id: u64::MAX,
                payload: Bytes::new(),
            },
            Frame::NoReply(3),
            Frame::Subscribe {
                id: 4,
                filters: vec![
                    TopicFilter::Exact(topic("a")),
                    TopicFilter::Prefix(topic("b/c")),
                ],
            },
            Frame::Subscribed(5),
            Frame::Denied(6),
            Frame::Unsubscribe(7),
            Frame::Publication {
                topic: topic("job/all"),
                payload,
            },
            Frame::Lagged { id: 9, count: 10 },
        ]
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for frame in all() {
            assert_eq!(Frame::decode(bytes(&frame), 2), Ok(frame));
        }
    }

    #[test]
    fn a_part_of_a_message_is_never_read_as_something_else() {
        for frame in all() {
            let bytes = bytes(&frame);
            for end in 0..bytes.len() {
                // The payload has no length of its own: the WebSocket message has it.
                if let Ok(other) = Frame::decode(bytes.slice(..end), 2) {
                    assert_eq!(
                        std::mem::discriminant(&other),
                        std::mem::discriminant(&frame)
                    );
                }
            }
        }
    }

    #[test]
    fn nonsense_is_a_violation() {
        let many = Frame::Subscribe {
            id: 1,
            filters: vec![TopicFilter::Exact(topic("a")); 3],
        };
        let long = [&bytes(&Frame::NoReply(1))[..], b"x"].concat();
        for nonsense in [
            Bytes::new(),
            Bytes::from_static(&[0; 9]),
            Bytes::from_static(&[8, 1, 0, b' ']),
            Bytes::from_static(&[8, 255, 255, b'a']),
            bytes(&many),
            long.into(),
        ] {
            assert!(Frame::decode(nonsense, 2).is_err());
        }
    }
}
