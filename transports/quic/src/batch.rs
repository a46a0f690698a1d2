//! Frames that wait to be written.

use bytes::{BufMut, Bytes, BytesMut};
use saline_protocol::transport::TopicFilter;

use crate::BATCH;
use crate::frame::{Asked, COPIED, Kind, VERSION, header};

/// Frames that wait to be written, coalesced: small ones are copied together into one block, since
/// quinn walks over all blocks that are not acknowledged yet.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    blocks: Vec<Bytes>,
    tail: BytesMut,
}

impl Batch {
    /// Adds a frame.
    pub(crate) fn frame(&mut self, kind: Kind, number: u64, body: &Bytes) {
        self.tail.put_slice(&header(kind, number, body.len()));
        self.bytes(body);
    }

    /// Adds a frame that is encoded already, or the rest of one.
    pub(crate) fn bytes(&mut self, bytes: &Bytes) {
        if bytes.len() <= COPIED {
            self.tail.put_slice(bytes);
        } else {
            self.seal();
            self.blocks.push(bytes.clone());
        }
    }

    /// Adds bytes by copying them.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        self.tail.put_slice(bytes);
    }

    /// Makes room for so many bytes, up to a batch.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.tail.reserve(bytes.min(BATCH));
    }

    /// Adds a frame without a body.
    pub(crate) fn bare(&mut self, kind: Kind, number: u64) {
        self.tail.put_slice(&header(kind, number, 0));
    }

    /// Adds Hello.
    pub(crate) fn hello(&mut self, subscriptions: &[Asked]) {
        let mut body = BytesMut::new();
        for asked in subscriptions {
            body.put_u64_le(asked.id);
            // Both bounds are far below 65,536: the limit on subscriptions is checked before.
            body.put_u16_le(u16::try_from(asked.filters.len()).unwrap_or(u16::MAX));
            put_filters(&mut body, &asked.filters);
        }
        self.frame(Kind::Hello, VERSION, &body.freeze());
    }

    /// Adds Subscribe.
    pub(crate) fn subscribe(&mut self, asked: &Asked) {
        let mut body = BytesMut::new();
        put_filters(&mut body, &asked.filters);
        self.frame(Kind::Subscribe, asked.id, &body.freeze());
    }

    /// How many bytes wait.
    pub(crate) fn len(&self) -> usize {
        self.tail.len() + self.blocks.iter().map(Bytes::len).sum::<usize>()
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.tail.is_empty()
    }

    /// Everything, in blocks as they are to be written.
    pub(crate) fn take(&mut self) -> Vec<Bytes> {
        self.seal();
        std::mem::take(&mut self.blocks)
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.blocks.push(self.tail.split().freeze());
        }
    }
}

fn put_filters(body: &mut BytesMut, filters: &[TopicFilter]) {
    for filter in filters {
        body.put_u8(u8::from(matches!(filter, TopicFilter::Prefix(_))));
        let topic = filter.topic().as_str();
        body.put_u16_le(u16::try_from(topic.len()).unwrap_or(u16::MAX));
        body.put_slice(topic.as_bytes());
    }
}
