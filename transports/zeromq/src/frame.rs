//! The bytes at the request port: one ZeroMQ frame a message, `version, kind, body`. Those at the
//! publication port are in `publication_wire.rs`.

use std::ops::{Deref, Range};

/// The version of all frames, at either port.
pub(crate) const VERSION: u8 = 1;
/// The most bytes that come before a payload, at either port.
pub(crate) const MAX_HEADER: usize =
    saline_protocol::transport::MAX_TOPIC_BYTES + 2 + 2 + 8 + 2 + 9 * 8;
/// Bytes before the payload of a request or a reply.
pub(crate) const REQUEST_HEADER: usize = 10;

/// A frame at the request port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A client's first frame.
    Hello,
    /// The answer to it.
    Welcome,
    /// The other answer: the server holds as many connections as it may.
    Full,
    /// A request, or the last part of one; its payload follows the header.
    Request(u64),
    /// The reply to the request of that number; its payload follows the header.
    Reply(u64),
    /// The handler dropped the request of that number.
    NoReply(u64),
    /// An end that has heard nothing for a while asks whether the other one is alive.
    Ping,
    /// The answer to [`Ping`](Self::Ping). A server also sends it unasked, to find out who has gone.
    Pong,
    /// A part of the payload of the request of that number; more follow.
    Part(u64),
}

impl Frame {
    fn parts(self) -> (u8, Option<u64>) {
        match self {
            Self::Hello => (1, None),
            Self::Welcome => (2, None),
            Self::Full => (3, None),
            Self::Request(id) => (4, Some(id)),
            Self::Reply(id) => (5, Some(id)),
            Self::NoReply(id) => (6, Some(id)),
            Self::Ping => (7, None),
            Self::Pong => (8, None),
            // 9 is the kind of a joined frame.
            Self::Part(id) => (10, Some(id)),
        }
    }

    /// Returns the bytes that come before the payload.
    pub(crate) fn header(self) -> impl Deref<Target = [u8]> {
        let (kind, id) = self.parts();
        let mut bytes = [0; REQUEST_HEADER];
        bytes[0] = VERSION;
        bytes[1] = kind;
        bytes[2..].copy_from_slice(&id.unwrap_or_default().to_le_bytes());
        Header {
            bytes,
            length: if id.is_some() { REQUEST_HEADER } else { 2 },
        }
    }

    /// Returns the message of this frame with `payload` behind it.
    pub(crate) fn encode(self, payload: &[u8]) -> zmq::Message {
        join(&self.header(), payload)
    }

    /// Reads a frame. The payload of one that has a number begins at [`REQUEST_HEADER`]. Returns `None`
    /// when it is not a frame of this transport.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&version, rest) = bytes.split_first()?;
        let (&kind, rest) = rest.split_first()?;
        if version != VERSION {
            return None;
        }
        let id = || rest.first_chunk().copied().map(u64::from_le_bytes);
        match kind {
            1 => Some(Self::Hello),
            2 => Some(Self::Welcome),
            3 => Some(Self::Full),
            4 => id().map(Self::Request),
            5 => id().map(Self::Reply),
            6 => id().map(Self::NoReply),
            7 => Some(Self::Ping),
            8 => Some(Self::Pong),
            10 => id().map(Self::Part),
            _ => None,
        }
    }
}

/// The first bytes of a frame.
struct Header {
    bytes: [u8; REQUEST_HEADER],
    length: usize,
}

impl Deref for Header {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Returns the message of both parts. Small ones are cheaper in one allocation of libzmq's own, large
/// ones without being cleared first.
pub(crate) fn join(header: &[u8], payload: &[u8]) -> zmq::Message {
    const SMALL: usize = 4096;
    let length = header.len() + payload.len();
    if length <= SMALL {
        let mut message = zmq::Message::with_size(length);
        message[..header.len()].copy_from_slice(header);
        message[header.len()..].copy_from_slice(payload);
        message
    } else {
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(header);
        bytes.extend_from_slice(payload);
        bytes.into()
    }
}

/// Bytes of the length before each piece of a frame that holds several.
pub(crate) const LENGTH: usize = 4;

/// Writes the length of a piece.
pub(crate) fn put_length(length: usize, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
}

/// Returns the ranges of the pieces that begin at `start`, each behind its length. `None` when one is
/// cut off, or when there are more than `most`.
pub(crate) fn pieces(bytes: &[u8], start: usize, most: usize) -> Option<Vec<Range<usize>>> {
    let mut pieces = Vec::with_capacity(most);
    let mut at = start;
    while at < bytes.len() {
        let length = u32::from_le_bytes(*bytes.get(at..)?.first_chunk::<LENGTH>()?);
        let begin = at + LENGTH;
        let end = begin.checked_add(usize::try_from(length).ok()?)?;
        if end > bytes.len() || pieces.len() == most {
            return None;
        }
        pieces.push(begin..end);
        at = end;
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(
            ours in any::<bool>(),
            bytes in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let _ = Frame::decode(&bytes);
            let begun = if ours { [&[VERSION, 4][..], &bytes].concat() } else { bytes };
            let _ = Frame::decode(&begun);
        }

        #[test]
        fn a_frame_reads_back(
            id: u64,
            payload in prop::collection::vec(any::<u8>(), 0..9000),
        ) {
            for frame in [Frame::Request(id), Frame::Reply(id), Frame::NoReply(id), Frame::Part(id)] {
                let message = frame.encode(&payload);
                prop_assert_eq!(Frame::decode(&message), Some(frame));
                prop_assert_eq!(&message[REQUEST_HEADER..], &payload[..]);
            }
            for frame in [Frame::Hello, Frame::Welcome, Frame::Full, Frame::Ping, Frame::Pong] {
                prop_assert_eq!(Frame::decode(&frame.encode(&[])), Some(frame));
            }
        }
    }
}
