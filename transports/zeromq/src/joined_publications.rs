//! Several small publications of one topic in one ZeroMQ frame.
//!
//! libzmq works for each message and each subscriber, so those that wait anyway go together, as
//! requests do (`joined_requests.rs`). One that waits alone goes alone and at once. In a series each
//! payload follows its length; its numbers are those of the first payload plus its index.
//!
//! They stay for speed alone: without them nothing would be lost, only slower. `saline-bench transports` measured 5.0 million
//! publications of 64 B a second to 100 subscribers, 1.58 times what bare libzmq reaches, for 0.63 of its CPU time
//! (`docs/benchmarks.md`). Jobs hardly use them, since each is one publication; bursts of events on one topic do.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::frame::pieces;
use crate::number_set::NumberSet;
use crate::publication_wire;

/// Payloads up to this are joined.
pub(crate) const SMALL: usize = 1024;
/// Payload bytes that are joined at most.
const MAX_BYTES: usize = 16 << 10;
/// How many are joined at most: a subscriber whose queue is full loses as many at once.
const MAX_COUNT: usize = 64;

/// A message to subscribers.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A publication that may be joined with others.
    Small {
        /// The key of its exact topic; those that are joined share it.
        key: Arc<[u8]>,
        numbers: NumberSet,
        payload: Bytes,
    },
    /// A message that goes alone.
    Whole(zmq::Message),
}

impl Outgoing {
    /// Returns how many bytes it counts towards the limit of the queue.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Small { payload, .. } => payload.len(),
            Self::Whole(message) => message.len(),
        }
    }
}

/// Encodes `outgoing` in as few messages as possible, in the same order.
pub(crate) fn join(
    outgoing: impl Iterator<Item = Outgoing>,
    incarnation: u64,
    into: &mut VecDeque<zmq::Message>,
) {
    let mut outgoing = outgoing.peekable();
    let mut payloads = Vec::new();
    while let Some(first) = outgoing.next() {
        let (key, numbers, payload) = match first {
            Outgoing::Whole(message) => {
                into.push_back(message);
                continue;
            }
            Outgoing::Small {
                key,
                numbers,
                payload,
            } => (key, numbers, payload),
        };
        let mut bytes = payload.len();
        payloads.clear();
        payloads.push(payload);
        while payloads.len() < MAX_COUNT
            && let Some(Outgoing::Small { payload, .. }) = outgoing.next_if(|next| match next {
                Outgoing::Small {
                    key: other,
                    numbers: after,
                    payload,
                } => {
                    bytes += payload.len();
                    Arc::ptr_eq(other, &key)
                        && bytes <= MAX_BYTES
                        && *after == numbers.plus(payloads.len() as u64)
                }
                Outgoing::Whole(_) => false,
            })
        {
            payloads.push(payload);
        }
        into.push_back(match &payloads[..] {
            [alone] => publication_wire::publication(&key, incarnation, &numbers, alone),
            several => publication_wire::series(&key, incarnation, &numbers, several),
        });
    }
}

/// Returns the ranges of the payloads in a series, which begin at `start`; `None` when it is malformed.
pub(crate) fn split(bytes: &[u8], start: usize) -> Option<Vec<Range<usize>>> {
    pieces(bytes, start, MAX_COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publication_wire::Published;
    use proptest::prelude::*;

    fn small(key: &Arc<[u8]>, number: u64, payload: Vec<u8>) -> Outgoing {
        let mut numbers = NumberSet::default();
        numbers.set(0, number);
        Outgoing::Small {
            key: Arc::clone(key),
            numbers,
            payload: payload.into(),
        }
    }

    fn joined(outgoing: Vec<Outgoing>) -> VecDeque<zmq::Message> {
        let mut messages = VecDeque::new();
        join(outgoing.into_iter(), 7, &mut messages);
        messages
    }

    #[test]
    fn only_what_follows_is_joined() {
        let (a, b): (Arc<[u8]>, Arc<[u8]>) = (b"a/\0"[..].into(), b"b/\0"[..].into());
        let count = |outgoing| joined(outgoing).len();
        let one = |key, number| small(key, number, vec![1]);
        assert_eq!(count(vec![one(&a, 1), one(&a, 2), one(&a, 3)]), 1);
        assert_eq!(count(vec![one(&a, 1), one(&b, 1), one(&a, 2)]), 3);
        assert_eq!(
            count(vec![one(&a, 1), one(&a, 3)]),
            2,
            "a number is missing"
        );
        let whole = Outgoing::Whole(b"x"[..].into());
        assert_eq!(count(vec![one(&a, 1), whole, one(&a, 2)]), 3);
        assert_eq!(count((1..=200).map(|n| one(&a, n)).collect()), 4);
        let large = (1..=32).map(|n| small(&a, n, vec![0; SMALL])).collect();
        assert_eq!(count(large), 32 * SMALL / MAX_BYTES);
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_splitter(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            start in 0usize..400,
        ) {
            for range in split(&bytes, start).unwrap_or_default() {
                prop_assert!(bytes.get(range).is_some());
            }
        }

        #[test]
        fn what_was_joined_is_split(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 2..MAX_COUNT),
        ) {
            let key: Arc<[u8]> = b"a/b/\0"[..].into();
            let outgoing = payloads.iter().zip(1..);
            let outgoing = outgoing.map(|(payload, n)| small(&key, n, payload.clone())).collect();
            let mut messages = joined(outgoing);
            prop_assert_eq!(messages.len(), 1);
            let message = messages.pop_front().unwrap();
            let Some(Published::Message { topic, incarnation, numbers, payload, series }) = Published::decode(&message)
            else { panic!("not a publication") };
            prop_assert_eq!((topic, incarnation, numbers.get(0), series), (&key[..], 7, Some(1), true));
            let ranges = split(&message, payload).unwrap();
            let read: Vec<_> = ranges.into_iter().map(|range| message[range].to_vec()).collect();
            prop_assert_eq!(read, payloads);
        }
    }
}
