//! A way for the fuzz targets to the decoders of ZeroMQ frames, which nobody else outside of this crate
//! needs. No part of the interface.

use saline_protocol::transport::TopicFilter;

use crate::filters::{Filters, Meaning, Payloads};
use crate::frame::{Frame, REQUEST_HEADER};
use crate::joined_requests;
use crate::publication_wire::{Published, confirmation_key, is_filter_key, publication};

/// Reads a ZeroMQ frame at the request port, of either side. Returns the payloads in it, in their order.
///
/// # Panics
/// When a frame that was read is encoded to another one.
pub fn read_requests(bytes: &[u8]) -> Vec<&[u8]> {
    let whole = 0..bytes.len();
    let frames = joined_requests::split(bytes).unwrap_or_else(|| vec![whole]);
    let payloads = frames.into_iter().filter_map(|range| {
        let bytes = &bytes[range];
        let frame = Frame::decode(bytes)?;
        let payload = match frame {
            Frame::Request(_) | Frame::Reply(_) | Frame::NoReply(_) | Frame::Part(_) => {
                &bytes[REQUEST_HEADER..]
            }
            _ => &[],
        };
        let encoded = frame.encode(payload);
        assert_eq!(Frame::decode(&encoded), Some(frame));
        if !payload.is_empty() {
            assert_eq!(&encoded[..], bytes);
        }
        Some(payload)
    });
    payloads.collect()
}

/// The subscription of a subscriber, as the frames of its publisher change it.
#[derive(Debug)]
pub struct Subscription(Filters);

impl Subscription {
    /// Returns a subscription to these topics, which the publisher `incarnation` has confirmed: `next` is
    /// the number that comes next.
    pub fn confirmed(topics: Vec<TopicFilter>, incarnation: u64, next: u64) -> Self {
        let mut filters = Filters::new(topics);
        filters.incarnation = incarnation;
        filters
            .by_key
            .values_mut()
            .for_each(|filter| filter.next = Some(next));
        Self(filters)
    }

    /// Reads a ZeroMQ frame at the publication port. Returns the number of publications that it has or
    /// says are lost.
    ///
    /// # Panics
    /// When a payload is not in the frame, or a publication is encoded to another one.
    pub fn read(&mut self, bytes: &[u8]) -> u64 {
        // What a publisher reads of the subscriptions of strangers.
        let _ = is_filter_key(bytes);
        let _ = confirmation_key(bytes).map(is_filter_key);
        if let Some(Published::Message {
            topic,
            incarnation,
            numbers,
            payload,
            series: false,
        }) = Published::decode(bytes)
        {
            let encoded = publication(topic, incarnation, &numbers, &bytes[payload..]);
            assert_eq!(&encoded[..], bytes);
        }
        match self.0.meaning(bytes) {
            Meaning::Messages { lost, payloads, .. } => {
                let count = match payloads {
                    Payloads::One(start) => {
                        assert!(start <= bytes.len());
                        1
                    }
                    Payloads::Several(ranges) => {
                        assert!(
                            ranges
                                .iter()
                                .all(|range| bytes.get(range.clone()).is_some())
                        );
                        ranges.len() as u64
                    }
                };
                lost.saturating_add(count)
            }
            Meaning::Lost(lost) => lost,
            Meaning::Ping | Meaning::Nothing | Meaning::Foreign | Meaning::Broken => 0,
        }
    }
}

/// Returns frames of a publisher about the topic, as seeds.
pub fn published(topic: &TopicFilter, incarnation: u64, number: u64) -> Vec<Vec<u8>> {
    use crate::number_set::NumberSet;
    use crate::publication_wire::{beacon, confirmation, confirmed, filter_key, link_ping, series};

    let key = filter_key(topic);
    let exact = filter_key(&TopicFilter::Exact(topic.topic().clone()));
    let mut numbers = NumberSet::default();
    (0..3).for_each(|bit| numbers.set(bit, number));
    let payloads = [
        bytes::Bytes::from_static(b"one"),
        bytes::Bytes::from_static(b"two"),
    ];
    [
        publication(&exact, incarnation, &numbers, b"one"),
        series(&exact, incarnation, &numbers, &payloads),
        beacon(&key, incarnation, number),
        link_ping(incarnation),
        confirmed(&confirmation(3, &key), incarnation, number),
    ]
    .iter()
    .map(|message| message.to_vec())
    .collect()
}

/// Returns a frame of two joined replies, as a seed.
pub fn joined() -> Vec<u8> {
    let payloads = [
        bytes::Bytes::from_static(b"one"),
        bytes::Bytes::from_static(b"two"),
    ];
    let frames = (0..).map(Frame::Reply).zip(&payloads);
    joined_requests::join(frames).to_vec()
}

/// Returns a frame of each kind at the request port, as seeds.
pub fn requests() -> Vec<Vec<u8>> {
    let with_payload = [Frame::Request(7), Frame::Reply(8), Frame::Part(7)];
    let with_payload = with_payload.map(|frame| frame.encode(b"payload"));
    let others = [
        Frame::Hello,
        Frame::Welcome,
        Frame::Full,
        Frame::NoReply(9),
        Frame::Ping,
        Frame::Pong,
    ];
    let others = others.map(|frame| frame.encode(&[]));
    let all = with_payload.iter().chain(&others);
    all.map(|message| message.to_vec()).collect()
}
