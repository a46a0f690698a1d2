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

/// An answer that is to be sent.
#[derive(Debug)]
pub(crate) enum AnswerFrame {
    /// May be joined with others.
    Small(Frame, Bytes),
    /// Goes alone. A large payload is copied into its message by whoever answers, and not by the task
    /// that serves all clients.
    Whole(zmq::Message),
}

impl AnswerFrame {
    /// Returns `frame` with `payload` behind it.
    pub(crate) fn new(frame: Frame, payload: Bytes) -> Self {
        match payload.len() <= SMALL {
            true => Self::Small(frame, payload),
            false => Self::Whole(frame.encode(&payload)),
        }
    }

    /// Returns what can be joined with others.
    pub(crate) fn small(&self) -> Option<(Frame, &Bytes)> {
        match self {
            Self::Small(frame, payload) => Some((*frame, payload)),
            Self::Whole(_) => None,
        }
    }

    /// Returns the message that carries this answer alone.
    pub(crate) fn into_message(self) -> zmq::Message {
        match self {
            Self::Small(frame, payload) => frame.encode(&payload),
            Self::Whole(message) => message,
        }
    }
}

/// Returns how many of the first payloads go together in one frame; at least one of any.
pub(crate) fn together<'a>(payloads: impl Iterator<Item = &'a Bytes>) -> usize {
    let mut bytes = 0;
    let joined = payloads.take(MAX_COUNT).take_while(|payload| {
        bytes += payload.len();
        payload.len() <= SMALL && bytes <= MAX_BYTES
    });
    joined.count().max(1)
}

/// Joins `frames` and their payloads in one frame.
pub(crate) fn join<'a>(frames: impl Iterator<Item = (Frame, &'a Bytes)> + Clone) -> zmq::Message {
    let frames = frames.map(|(frame, payload)| (frame.header(), payload));
    // Exactly as much as is needed: libzmq takes it as it is.
    let lengths = frames.clone();
    let length = lengths.map(|(header, payload)| LENGTH + header.len() + payload.len());
    let mut bytes = Vec::with_capacity(2 + length.sum::<usize>());
    bytes.extend_from_slice(&[VERSION, BATCH]);
    for (header, payload) in frames {
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

    fn join_all(payloads: &[Bytes]) -> zmq::Message {
        join((0..).map(Frame::Reply).zip(payloads))
    }

    #[test]
    fn large_ones_go_alone_and_the_joined_are_bounded() {
        let payload = |size| Bytes::from(vec![0; size]);
        let large = payload(SMALL + 1);
        let many: Vec<_> = (0..200).map(|_| payload(1)).collect();
        assert_eq!(together(many.iter()), MAX_COUNT);
        let full: Vec<_> = (0..200).map(|_| payload(SMALL)).collect();
        assert_eq!(together(full.iter()), MAX_BYTES / SMALL);
        assert_eq!(together([&large].into_iter()), 1);
        assert_eq!(together([&many[0], &large, &many[1]].into_iter()), 1);
        let one_more = join_all(&many[..=MAX_COUNT]);
        assert_eq!(split(&one_more), None);
        assert!(AnswerFrame::new(Frame::Reply(1), large).small().is_none());
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
            let payloads: Vec<_> = payloads.into_iter().map(Bytes::from).collect();
            prop_assert_eq!(together(payloads.iter()), payloads.len());
            let joined = join_all(&payloads);
            let frames = split(&joined).unwrap();
            prop_assert_eq!(frames.len(), payloads.len());
            for ((frame, payload), id) in frames.into_iter().zip(&payloads).zip(0..) {
                let frame = &joined[frame];
                prop_assert_eq!(Frame::decode(frame), Some(Frame::Reply(id)));
                prop_assert_eq!(&frame[REQUEST_HEADER..], &payload[..]);
            }
        }
    }
}
