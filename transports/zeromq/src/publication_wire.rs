//! The bytes at the publication port: one ZeroMQ frame a message.
//!
//! A frame begins with the topic, because ZeroMQ filters by the first bytes: each segment and a `/`,
//! then a byte that no topic contains, which ends it. So a subscription to `a/b/` takes whole segments
//! only. Version, kind and body follow.
//!
//! Publications are numbered per subscription filter, not per topic: a message carries the next
//! number of every filter that takes it and that somebody has subscribed to, at most nine. A
//! subscriber so counts exactly what its own filter lost, and a publisher remembers what is
//! subscribed to now instead of every topic that it ever saw.

use bytes::Bytes;
use saline_protocol::transport::{MAX_TOPIC_BYTES, Topic, TopicFilter};

use crate::frame::{LENGTH, MAX_HEADER, VERSION, join, put_length};
use crate::number_set::NumberSet;

/// The most bytes of a subscription: a filter and what a confirmation puts before it.
pub(crate) const MAX_SUBSCRIPTION: usize = MAX_TOPIC_BYTES + 2 + 2 + 8;

/// The topic of link pings, which every subscriber subscribes to: proof that the publisher is alive.
pub(crate) const PUBLISHER_PING: &[u8] = b"\x02b";
/// The topic that a subscriber subscribes to at a link ping and withdraws at the next: proof that it is
/// alive, which a publisher could not ask for otherwise. ZMTP's heartbeats would do, but libzmq 4.3.4 ends the process
/// when one is due on a connection that broke while it was not being read.
pub(crate) const SUBSCRIBER_PING: &[u8] = b"\x02a";
/// The first bytes of a confirmation's topic.
const CONFIRM: &[u8] = b"\x02c";

/// Returns a filter as ZeroMQ subscribes to it.
pub(crate) fn filter_key(filter: &TopicFilter) -> Vec<u8> {
    let mut key = Vec::with_capacity(filter.topic().as_str().len() + 2);
    key.extend_from_slice(filter.topic().as_str().as_bytes());
    key.push(b'/');
    if matches!(filter, TopicFilter::Exact(_)) {
        key.push(0);
    }
    key
}

/// Returns the key of the filter that takes `topic` alone.
pub(crate) fn exact_key(topic: &Topic) -> Vec<u8> {
    filter_key(&TopicFilter::Exact(topic.clone()))
}

/// Returns whether `key` is the [`filter_key`] of some filter.
pub(crate) fn is_filter_key(key: &[u8]) -> bool {
    let text = key.strip_suffix(&[0]).unwrap_or(key);
    let Some(text) = text.strip_suffix(b"/") else {
        return false;
    };
    std::str::from_utf8(text).is_ok_and(|text| Topic::parse(text).is_ok())
}

/// Returns the keys of all filters that take a topic, with the bit that each has in a publication: 0 for the
/// exact topic, n for its first n segments.
pub(crate) fn keys_of(topic_bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let exact = std::iter::once((0, topic_bytes));
    let prefixes = topic_bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/')
        .zip(1..=8)
        .map(|((at, _), bit)| (bit, &topic_bytes[..=at]));
    exact.chain(prefixes)
}

/// Returns the bit of `filter` in a publication that it takes.
pub(crate) fn filter_bit(filter: &TopicFilter) -> u8 {
    match filter {
        TopicFilter::Exact(_) => 0,
        TopicFilter::Prefix(topic) => topic.segments().count() as u8,
    }
}

/// Returns the topic that a subscriber subscribes to in order to be told the number of `key`.
pub(crate) fn confirmation(token: u64, key: &[u8]) -> Vec<u8> {
    let mut topic = Vec::with_capacity(CONFIRM.len() + 8 + key.len());
    topic.extend_from_slice(CONFIRM);
    topic.extend_from_slice(&token.to_le_bytes());
    topic.extend_from_slice(key);
    topic
}

/// Returns the key of the filter that a confirmation's topic asks about.
pub(crate) fn confirmation_key(topic: &[u8]) -> Option<&[u8]> {
    topic.strip_prefix(CONFIRM)?.get(8..)
}

/// A frame at the publication port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Published<'a> {
    /// A publication, or several of one topic.
    Message {
        /// The topic as ZeroMQ sees it, `/` and NUL at its end.
        topic: &'a [u8],
        /// The publisher that sent it.
        incarnation: u64,
        /// Its sequence numbers.
        numbers: NumberSet,
        /// Where the payload begins.
        payload: usize,
        /// Whether it is a series of payloads, whose first one has these numbers.
        series: bool,
    },
    /// Tells the last number of a filter, in case the message that had it was lost.
    Beacon {
        /// The filter.
        key: &'a [u8],
        /// The publisher that sent it.
        incarnation: u64,
        /// Its last number.
        number: u64,
    },
    /// Tells that the publisher is alive.
    Ping {
        /// The publisher that sent it.
        incarnation: u64,
    },
    /// Confirms a subscription to a filter.
    Confirmed {
        /// The topic that asked for it.
        topic: &'a [u8],
        /// The publisher that confirms.
        incarnation: u64,
        /// The filter's last number: the next publication has the one after it.
        number: u64,
    },
}

/// The kinds of frames, behind the topic.
const MESSAGE: u8 = 1;
const BEACON: u8 = 2;
const PING: u8 = 3;
const CONFIRMED: u8 = 4;
const SERIES: u8 = 5;
/// Ends a filter of whole segments in a beacon, where an exact topic has its NUL.
const END: u8 = 1;

/// Encodes a publication. `topic` is the key of the exact topic.
pub(crate) fn publication(
    topic: &[u8],
    incarnation: u64,
    numbers: &NumberSet,
    payload: &[u8],
) -> zmq::Message {
    let (header, length) = header(MESSAGE, topic, incarnation, numbers);
    join(&header[..length], payload)
}

/// Encodes several publications of one topic, the first of which has these numbers.
pub(crate) fn series(
    topic: &[u8],
    incarnation: u64,
    numbers: &NumberSet,
    payloads: &[Bytes],
) -> zmq::Message {
    let (header, length) = header(SERIES, topic, incarnation, numbers);
    let size: usize = payloads.iter().map(|one| LENGTH + one.len()).sum();
    // Exactly as much as is needed: libzmq takes it as it is.
    let mut bytes = Vec::with_capacity(length + size);
    bytes.extend_from_slice(&header[..length]);
    for payload in payloads {
        put_length(payload.len(), &mut bytes);
        bytes.extend_from_slice(payload);
    }
    bytes.into()
}

/// Returns the bytes that come before the payload, and their length.
fn header(
    kind: u8,
    topic: &[u8],
    incarnation: u64,
    numbers: &NumberSet,
) -> ([u8; MAX_HEADER], usize) {
    let mut header = [0; MAX_HEADER];
    let mut length = 0;
    let mut put = |bytes: &[u8]| {
        header[length..length + bytes.len()].copy_from_slice(bytes);
        length += bytes.len();
    };
    put(topic);
    put(&[VERSION, kind]);
    put(&incarnation.to_le_bytes());
    put(&numbers.mask().to_le_bytes());
    for bit in 0..9 {
        if let Some(number) = numbers.get(bit) {
            put(&number.to_le_bytes());
        }
    }
    (header, length)
}

/// Gives a publication of the topic `key` other numbers. `None` when it has room for the numbers of
/// other filters than these.
pub(crate) fn renumber(
    mut message: zmq::Message,
    key: &[u8],
    numbers: &NumberSet,
) -> Option<zmq::Message> {
    let at = key.len() + 2 + 8;
    if message.get(at..at + 2)? != numbers.mask().to_le_bytes() {
        return None;
    }
    let given = (0..9).filter_map(|bit| numbers.get(bit));
    for (place, number) in message.get_mut(at + 2..)?.chunks_exact_mut(8).zip(given) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    Some(message)
}

/// Encodes a beacon of the filter `key`.
pub(crate) fn beacon(key: &[u8], incarnation: u64, number: u64) -> zmq::Message {
    let mut bytes = key.to_vec();
    if key.last() != Some(&0) {
        bytes.push(END);
    }
    bytes.extend_from_slice(&[VERSION, BEACON]);
    bytes.extend_from_slice(&incarnation.to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.into()
}

/// Encodes a link ping.
pub(crate) fn link_ping(incarnation: u64) -> zmq::Message {
    let mut bytes = PUBLISHER_PING.to_vec();
    bytes.extend_from_slice(&[VERSION, PING]);
    bytes.extend_from_slice(&incarnation.to_le_bytes());
    bytes.into()
}

/// Encodes the answer to a subscription to `topic`, which [`confirmation`] made.
pub(crate) fn confirmed(topic: &[u8], incarnation: u64, number: u64) -> zmq::Message {
    let mut bytes = topic.to_vec();
    // The number of bytes of the topic is not in it: what follows has a fixed size instead.
    bytes.extend_from_slice(&[VERSION, CONFIRMED]);
    bytes.extend_from_slice(&incarnation.to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.into()
}

impl<'a> Published<'a> {
    /// Reads a frame; `None` when it is not a frame of this transport.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        if let Some(rest) = bytes.strip_prefix(PUBLISHER_PING) {
            let (kind, rest) = kind(rest)?;
            return (kind == PING).then_some(Self::Ping {
                incarnation: u64::from_le_bytes(*rest.first_chunk()?),
            });
        }
        if bytes.starts_with(CONFIRM) {
            let (topic, tail) = bytes.split_at_checked(bytes.len().checked_sub(18)?)?;
            confirmation_key(topic)?;
            let (kind, rest) = kind(tail)?;
            let (incarnation, rest) = number(rest)?;
            let (number, _) = number(rest)?;
            return (kind == CONFIRMED).then_some(Self::Confirmed {
                topic,
                incarnation,
                number,
            });
        }
        let end = bytes
            .iter()
            .take(MAX_TOPIC_BYTES + 2)
            .position(|byte| *byte <= END)?;
        let exact = bytes[end] == 0;
        let key = if exact { &bytes[..=end] } else { &bytes[..end] };
        let (kind, rest) = kind(&bytes[end + 1..])?;
        let (incarnation, rest) = number(rest)?;
        match (kind, exact) {
            (MESSAGE | SERIES, true) => {
                let (mask, mut rest) = rest.split_first_chunk()?;
                let mask = u16::from_le_bytes(*mask);
                if mask >= 1 << 9 {
                    return None;
                }
                let mut numbers = NumberSet::default();
                for bit in 0..9 {
                    if mask & (1 << bit) != 0 {
                        let (value, after) = number(rest)?;
                        numbers.set(bit, value);
                        rest = after;
                    }
                }
                Some(Self::Message {
                    topic: key,
                    incarnation,
                    numbers,
                    payload: bytes.len() - rest.len(),
                    series: kind == SERIES,
                })
            }
            (BEACON, _) => Some(Self::Beacon {
                key,
                incarnation,
                number: number(rest)?.0,
            }),
            _ => None,
        }
    }
}

fn kind(bytes: &[u8]) -> Option<(u8, &[u8])> {
    match bytes {
        [VERSION, kind, rest @ ..] => Some((*kind, rest)),
        _ => None,
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (value, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*value), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn topic(text: &str) -> Topic {
        text.parse().unwrap()
    }

    #[test]
    fn a_filter_takes_what_its_key_begins() {
        let exact = filter_key(&TopicFilter::Exact(topic("a/b")));
        let prefix = filter_key(&TopicFilter::Prefix(topic("a/b")));
        assert_eq!(
            (exact.as_slice(), prefix.as_slice()),
            (&b"a/b/\0"[..], &b"a/b/"[..])
        );
        let keys: Vec<_> = keys_of(&exact).collect();
        assert_eq!(
            keys,
            [(0, &b"a/b/\0"[..]), (1, &b"a/"[..]), (2, &b"a/b/"[..])]
        );
        assert!(is_filter_key(&exact) && is_filter_key(&prefix));
        assert!(!is_filter_key(b"a/b") && !is_filter_key(b"") && !is_filter_key(b"/"));
    }

    #[test]
    fn the_longest_header_fits() {
        let text = format!("1/2/3/4/5/6/7/{}", "8".repeat(512 - 14));
        let key = filter_key(&TopicFilter::Exact(topic(&text)));
        let mut numbers = NumberSet::default();
        (0..9).for_each(|bit| numbers.set(bit, u64::MAX));
        let message = publication(&key, 1, &numbers, b"x");
        assert_eq!(message.len(), MAX_HEADER + 1);
        let asked = confirmation(1, &key);
        assert!(asked.len() <= MAX_SUBSCRIPTION + 1);
        assert_eq!(confirmation_key(&asked), Some(&key[..]));
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_readers(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
            let _ = Published::decode(&bytes);
            let _ = is_filter_key(&bytes);
            let _ = confirmation_key(&bytes);
        }

        #[test]
        fn bytes_that_begin_like_ours_break_nothing(
            text in "[a-c/]{0,20}",
            end in 0u8..3,
            kind in 0u8..9,
            rest in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut bytes = text.into_bytes();
            bytes.extend([end, VERSION, kind]);
            bytes.extend(rest);
            if let Some(Published::Message { payload, .. }) = Published::decode(&bytes) {
                prop_assert!(payload <= bytes.len());
            }
            let _ = Published::decode(&[CONFIRM, &bytes].concat());
            let _ = Published::decode(&[PUBLISHER_PING, &bytes].concat());
        }

        #[test]
        fn a_publication_reads_back(
            text in "[a-z]{1,9}(/[a-z]{1,9}){0,7}",
            incarnation: u64,
            given in prop::collection::vec(prop::option::of(any::<u64>()), 9),
            payload in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let key = filter_key(&TopicFilter::Exact(topic(&text)));
            let mut numbers = NumberSet::default();
            for (bit, number) in given.iter().enumerate() {
                if let Some(number) = number {
                    numbers.set(bit as u8, *number);
                }
            }
            let message = publication(&key, incarnation, &numbers, &payload);
            let Some(Published::Message { topic, incarnation: from, numbers: read, payload: at, series: false }) = Published::decode(&message)
            else { panic!("not a publication") };
            prop_assert_eq!((topic, from, read), (&key[..], incarnation, numbers));
            prop_assert_eq!(&message[at..], &payload[..]);

            let mut other = numbers;
            (0..9).for_each(|bit| if let Some(n) = numbers.get(bit) { other.set(bit, n ^ 1) });
            let renumbered = renumber(publication(&key, incarnation, &numbers, &payload), &key, &other);
            prop_assert_eq!(renumbered, Some(publication(&key, incarnation, &other, &payload)));

            let prefix = filter_key(&TopicFilter::Prefix(self::topic(&text)));
            for key in [&key, &prefix] {
                let bytes = beacon(key, incarnation, 7);
                prop_assert_eq!(Published::decode(&bytes), Some(Published::Beacon { key, incarnation, number: 7 }));
                let asked = confirmation(incarnation, key);
                let bytes = confirmed(&asked, incarnation, 9);
                prop_assert_eq!(Published::decode(&bytes), Some(Published::Confirmed { topic: &asked, incarnation, number: 9 }));
            }
        }
    }
}
