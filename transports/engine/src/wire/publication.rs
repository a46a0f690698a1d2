//! Publications as they are handed to connections: encoded once for all of them.

use bytes::Bytes;
use saline_protocol::transport::Topic;

use super::frame::{FrameKind, HEADER, header};
use super::send_buffer::SendBuffer;

/// Payloads up to this size are copied into the frame of a publication.
const SMALL: usize = 16 * 1024;

/// The frame of one publication, which all connections that take it share.
#[derive(Debug, Clone)]
pub(crate) struct PublicationFrame {
    /// The frame, without the payload when that is large.
    pub(crate) head: Bytes,
    /// A large payload, which is not copied.
    pub(crate) tail: Bytes,
    /// The payload's size.
    pub(crate) size: usize,
}

impl PublicationFrame {
    pub(crate) fn new(topic: &Topic, payload: Bytes) -> Self {
        let text = topic.as_str().as_bytes();
        let size = payload.len();
        let inline = if size <= SMALL { size } else { 0 };
        let mut head = Vec::with_capacity(HEADER + 2 + text.len() + inline);
        head.extend_from_slice(&header(FrameKind::Publication, 2 + text.len() + size));
        head.extend_from_slice(&(text.len() as u16).to_le_bytes());
        head.extend_from_slice(text);
        let tail = if size <= SMALL {
            head.extend_from_slice(&payload);
            Bytes::new()
        } else {
            payload
        };
        Self {
            head: head.into(),
            tail,
            size,
        }
    }

    /// Adds the frame to `buffer`.
    pub(crate) fn put_into(&self, buffer: &mut SendBuffer) {
        buffer.bytes(&self.head);
        buffer.bytes(&self.tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes before the payload of a publication of "t".
    const BEFORE: usize = HEADER + 2 + 1;

    #[test]
    fn a_large_payload_is_not_copied() {
        for (size, inline) in [(16_384, 16_384), (16_385, 0)] {
            let payload = Bytes::from(vec![1; size]);
            let frame = PublicationFrame::new(&"t".parse().unwrap(), payload.clone());
            assert_eq!(frame.head.len(), BEFORE + inline);
            assert_eq!((frame.tail.len(), frame.size), (size - inline, size));
            assert_eq!(frame.tail.as_ptr() == payload.as_ptr(), inline == 0);
        }
    }
}
