//! What the target knows of the bytes of a connection, in both directions.

use std::collections::BTreeMap;

use saline_engine::fuzzing::Came;

/// The bytes that either end may send before the other one allows more.
const FIRST_WINDOW: u64 = 16 * 1024;

/// The segments that may be under way; the end may come behind them.
const MOST_SEGMENTS: u64 = 256;

/// The bytes that the other side sends.
#[derive(Default)]
pub(super) struct Arriving {
    /// An empty segment is the end.
    segments: BTreeMap<u64, Vec<u8>>,
    read: usize,
    is_cut: bool,
}

impl Arriving {
    /// Takes note of a segment. What has come first under its number counts, and one that is far ahead has the
    /// connection cut.
    pub(super) fn add(&mut self, segment: u64, bytes: &[u8]) {
        let in_order = (0..).zip(self.segments.keys());
        let next = in_order.take_while(|(next, key)| next == *key).count();
        self.is_cut |= segment > next as u64 + MOST_SEGMENTS;
        let place = self.segments.entry(segment);
        place.or_insert_with(|| bytes.to_vec());
    }

    /// Takes note that one side has cut the connection.
    pub(super) fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Checks that what our side has read comes next, and that it is everything.
    pub(super) fn read(&mut self, came: Came) {
        let mut sent = Vec::new();
        let mut has_ended = false;
        for (number, (segment, bytes)) in (0..).zip(&self.segments) {
            has_ended = number == *segment && bytes.is_empty();
            if number != *segment || has_ended {
                break;
            }
            sent.extend_from_slice(bytes);
        }
        let (bytes, is_end, is_broken) = match came {
            Came::Bytes(bytes) => (bytes, false, false),
            Came::End(bytes) => (bytes, true, false),
            Came::Broken(bytes) => (bytes, false, true),
        };
        assert!(sent[self.read..].starts_with(&bytes), "other bytes arrived");
        self.read += bytes.len();
        if is_broken {
            return;
        }
        assert!(self.read == sent.len(), "bytes are held back");
        assert!(is_end == has_ended, "the end came early, or not at all");
        assert!(
            is_end || !self.is_cut,
            "it waits for a peer that has cut the connection"
        );
    }
}

/// The bytes that our side sends.
#[derive(Default)]
pub(super) struct Leaving {
    written: Vec<u8>,
    is_finished: bool,
    segments: Vec<Vec<u8>>,
    sent: usize,
    /// The number of the next packet.
    packet: u64,
    /// The largest count of bytes that the other side has allowed.
    allowed: u64,
}

impl Leaving {
    /// Our side was given these bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.written.extend_from_slice(bytes);
    }

    /// Our side was told that nothing follows.
    pub(super) fn finish(&mut self) {
        self.is_finished = true;
    }

    /// The other side allows so many bytes.
    pub(super) fn allow(&mut self, bytes: u64) {
        self.allowed = self.allowed.max(bytes);
    }

    /// Checks a segment that our side has sent; an empty one is the end.
    pub(super) fn send(&mut self, packet: u64, segment: u64, bytes: &[u8]) {
        assert!(packet >= self.packet, "two packets have the same number");
        self.packet = packet + 1;
        let segment = usize::try_from(segment).expect("a machine of 64 bits");
        if let Some(before) = self.segments.get(segment) {
            assert_eq!(before, bytes, "a segment has changed");
            return;
        }
        assert_eq!(segment, self.segments.len(), "a segment was left out");
        assert!(
            self.written[self.sent..].starts_with(bytes),
            "other bytes are sent"
        );
        self.sent += bytes.len();
        if bytes.is_empty() {
            assert!(self.is_finished, "nobody has ended it");
            assert_eq!(self.sent, self.written.len(), "an end before the last byte");
        }
        let allowed = self.allowed.max(FIRST_WINDOW);
        assert!(self.sent as u64 <= allowed, "more bytes than were allowed");
        self.segments.push(bytes.to_vec());
    }
}
