//! The frames of the ZeroMQ transport.

use saline_protocol::transport::{Topic, TopicFilter};
use saline_zeromq::fuzzing::{self, Subscription, read_requests};

pub(crate) fn requests(bytes: &[u8]) {
    let payloads = read_requests(bytes);
    let total: usize = payloads.iter().map(|payload| payload.len()).sum();
    assert!(total <= bytes.len());
}

pub(crate) fn request_seeds() -> Vec<Vec<u8>> {
    let mut seeds = fuzzing::requests();
    seeds.push(fuzzing::joined());
    seeds.push(b"\x01\x09\xff\xff\xff\xff".to_vec());
    seeds
}

const INCARNATION: u64 = 5;

fn topic(text: &str) -> Topic {
    Topic::parse(text).expect("segments of letters")
}

/// The bytes are frames, each behind its length in one byte.
pub(crate) fn publications(bytes: &[u8]) {
    let topics = vec![
        TopicFilter::Exact(topic("job/all")),
        TopicFilter::Prefix(topic("a/b")),
        TopicFilter::Prefix(topic("c")),
    ];
    let mut subscription = Subscription::confirmed(topics, INCARNATION, 1);
    subscription.read(bytes);
    let mut rest = bytes;
    while let Some((length, after)) = rest.split_first() {
        let (frame, after) = after.split_at(after.len().min(usize::from(*length)));
        subscription.read(frame);
        rest = after;
    }
}

pub(crate) fn publication_seeds() -> Vec<Vec<u8>> {
    let filters = [
        TopicFilter::Exact(topic("job/all")),
        TopicFilter::Exact(topic("a/b/c")),
        TopicFilter::Prefix(topic("c")),
    ];
    let mut seeds = Vec::new();
    for filter in filters {
        let frames = fuzzing::published(&filter, INCARNATION, 2);
        let behind_lengths = |frame: &Vec<u8>| [&[frame.len() as u8], &frame[..]].concat();
        seeds.push(frames.iter().flat_map(behind_lengths).collect());
        seeds.extend(frames);
    }
    seeds
}
