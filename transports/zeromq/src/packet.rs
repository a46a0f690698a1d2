//! Several small requests or replies in one ZeroMQ frame.
//!
//! What libzmq does for every message (queues between threads, a signal, the routing id as a frame of
//! its own) costs more than a small request itself, so those that wait anyway go together. One that
//! waits alone goes alone and at once: nothing is ever held back to be joined.

use std::ops::Range;

use bytes::Bytes;

use crate::frame::{Frame, LENGTH, VERSION, pieces, put_length};

/// Payloads up to this are joined.
const SMALL: usize = 1024;
/// Payload bytes that are joined at most.
const MAX_BYTES: usize = 16 << 10;
/// How many are joined at most. A frame with more is refused: each becomes a request of its own, and
/// a stranger would get much memory for few bytes.
const MAX_COUNT: usize = 64;
/// The kind of a frame that holds others.
const BATCH: u8 = 9;

/// A frame that is to be sent.
#[derive(Debug)]
pub(crate) enum Packet {
    /// May be joined with others.
    Small(Frame, Bytes),
    /// Goes alone, and is copied into its message only when it is sent: what waits here is the
    /// caller's own memory.
    Large(Frame, Bytes),
    /// Goes alone, and is in its message already.
    Whole(zmq::Message),
}

impl Packet {
    /// `frame` with `payload` behind it.
    pub(crate) fn new(frame: Frame, payload: Bytes) -> Self {
        if payload.len() <= SMALL {
            Self::Small(frame, payload)
        } else {
            Self::Large(frame, payload)
        }
    }

    /// The same, but a large one is copied at once: by whoever answers, and not by the task that
    /// serves all clients.
    pub(crate) fn copied(frame: Frame, payload: Bytes) -> Self {
        match Self::new(frame, payload) {
            Self::Large(frame, payload) => Self::Whole(frame.encode(&payload)),
            small => small,
        }
    }

    /// As a frame of its own.
    pub(crate) fn into_message(self) -> zmq::Message {
        match self {
            Self::Small(frame, payload) | Self::Large(frame, payload) => frame.encode(&payload),
            Self::Whole(message) => message,
        }
    }
}

/// How many of the first packets go together in one frame; at least one of any.
pub(crate) fn together<'a>(packets: impl Iterator<Item = &'a Packet>) -> usize {
    let mut bytes = 0;
    let joined = packets.take(MAX_COUNT).take_while(|packet| match packet {
        Packet::Small(_, payload) => {
            bytes += payload.len();
            bytes <= MAX_BYTES
        }
        Packet::Large(..) | Packet::Whole(_) => false,
    });
    joined.count().max(1)
}

/// One frame of the small ones among `packets`.
pub(crate) fn join<'a>(packets: impl Iterator<Item = &'a Packet> + Clone) -> zmq::Message {
    let small = packets.filter_map(|packet| match packet {
        Packet::Small(frame, payload) => Some((frame.header(), payload)),
        Packet::Large(..) | Packet::Whole(_) => None,
    });
    // Exactly as much as is needed: libzmq takes it as it is.
    let lengths = small.clone();
    let length = lengths.map(|(header, payload)| LENGTH + header.len() + payload.len());
    let mut bytes = Vec::with_capacity(2 + length.sum::<usize>());
    bytes.extend_from_slice(&[VERSION, BATCH]);
    for (header, payload) in small {
        put_length(header.len() + payload.len(), &mut bytes);
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(payload);
    }
    bytes.into()
}

/// Where the frames of a joined one are; `None` when it is not one, or breaks the rules anywhere.
pub(crate) fn split(bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    let start = bytes.strip_prefix(&[VERSION, BATCH]).map(|_| 2)?;
    pieces(bytes, start, MAX_COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::REQUEST_HEADER;
    use proptest::prelude::*;

    #[test]
    fn large_ones_go_alone_and_the_joined_are_bounded() {
        let small = |size| Packet::new(Frame::Request(1), vec![0; size].into());
        let large = Packet::new(Frame::Request(2), vec![0; SMALL + 1].into());
        let many: Vec<_> = (0..200).map(|_| small(1)).collect();
        assert_eq!(together(many.iter()), MAX_COUNT);
        let full: Vec<_> = (0..200).map(|_| small(SMALL)).collect();
        assert_eq!(together(full.iter()), MAX_BYTES / SMALL);
        assert_eq!(together([&large].into_iter()), 1);
        assert_eq!(together([&many[0], &large, &many[1]].into_iter()), 1);
        let one_more = join(many.iter().take(MAX_COUNT + 1));
        assert_eq!(split(&one_more), None);
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_splitter(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = split(&bytes);
            let _ = split(&[&[VERSION, BATCH][..], &bytes].concat());
        }

        #[test]
        fn what_was_joined_is_split(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..MAX_COUNT),
        ) {
            let packets: Vec<_> = payloads
                .iter()
                .zip(0..)
                .map(|(payload, id)| Packet::new(Frame::Reply(id), payload.clone().into()))
                .collect();
            prop_assert_eq!(together(packets.iter()), packets.len());
            let joined = join(packets.iter());
            let frames = split(&joined).unwrap();
            prop_assert_eq!(frames.len(), packets.len());
            for ((frame, payload), id) in frames.into_iter().zip(&payloads).zip(0..) {
                let frame = &joined[frame];
                prop_assert_eq!(Frame::decode(frame), Some(Frame::Reply(id)));
                prop_assert_eq!(&frame[REQUEST_HEADER..], &payload[..]);
            }
        }
    }
}
