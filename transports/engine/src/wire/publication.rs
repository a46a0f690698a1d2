//! Publications as they are handed to connections: encoded once, and those that many take are
//! written into a log that all connections share.

use bytes::Bytes;
use saline_protocol::transport::Topic;

use super::frame::{FrameKind, HEADER, header};
use super::frame_log::{FrameBytes, FrameLog, FrameRun};
use super::send_buffer::SendBuffer;

/// Larger frames stand by themselves, so that they are written from where they are.
const LARGEST: usize = 4 * 1024;

/// Payloads up to this size are copied into the frame of a publication.
const SMALL: usize = 16 * 1024;

/// The frame of one publication.
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

/// A publication, encoded once for all connections that take it.
#[derive(Debug)]
pub(crate) enum EncodedPublication {
    /// In the log that all connections share.
    Shared(PublicationRun),
    /// A frame by itself, because it is large or few take it.
    Single(PublicationFrame),
}

/// Publications side by side in the log.
#[derive(Debug, Clone)]
pub(crate) struct PublicationRun {
    frames: FrameRun,
    /// How many.
    pub(crate) messages: usize,
    /// The bytes of their payloads.
    pub(crate) bytes: usize,
}

impl EncodedPublication {
    /// Encodes a publication that stays by itself if it is large.
    pub(crate) fn new(topic: &Topic, payload: Bytes) -> Self {
        Self::Single(PublicationFrame::new(topic, payload))
    }

    /// Moves a small publication into `log`. What has few subscribers is better left by itself, because
    /// each of them would keep a whole chunk of the log.
    pub(crate) fn share(&mut self, log: &mut FrameLog) {
        if let Self::Single(frame) = self
            && frame.head.len() <= LARGEST
            && frame.tail.is_empty()
        {
            *self = Self::Shared(PublicationRun {
                frames: log.add(&frame.head),
                messages: 1,
                bytes: frame.size,
            });
        }
    }

    /// Returns the payload's size, in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Shared(run) => run.bytes,
            Self::Single(frame) => frame.size,
        }
    }
}

impl PublicationRun {
    /// Takes in a run that stands directly behind this one. False when `next` does not.
    pub(crate) fn extend(&mut self, next: &Self) -> bool {
        let follows = self.frames.extend(&next.frames);
        if follows {
            self.messages += next.messages;
            self.bytes += next.bytes;
        }
        follows
    }

    /// Adds its frames to `buffer`.
    pub(crate) fn put_into(&self, buffer: &mut SendBuffer) {
        self.frames.read(|frames| match frames {
            FrameBytes::Copy(frames) => buffer.copy(frames),
            FrameBytes::Share(frames) => buffer.bytes(&frames),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publication(size: usize) -> EncodedPublication {
        EncodedPublication::new(&"t".parse().unwrap(), Bytes::from(vec![1; size]))
    }

    #[test]
    fn a_run_knows_its_messages_and_bytes() {
        let mut log = FrameLog::default();
        let mut run = |size| {
            let mut publication = publication(size);
            publication.share(&mut log);
            match publication {
                EncodedPublication::Shared(run) => run,
                EncodedPublication::Single(_) => panic!("a small one"),
            }
        };
        let mut first = run(100);
        assert!(first.extend(&run(50)));
        assert_eq!((first.messages, first.bytes), (2, 150));
        let mut buffer = SendBuffer::default();
        first.put_into(&mut buffer);
        assert_eq!(buffer.len(), 2 * (HEADER + 2 + 1) + 150);
    }

    #[test]
    fn a_large_publication_stays_by_itself() {
        let mut log = FrameLog::default();
        for size in [LARGEST, 100_000] {
            let mut publication = publication(size);
            publication.share(&mut log);
            assert!(matches!(publication, EncodedPublication::Single(_)));
            assert_eq!(publication.size(), size);
        }
    }

    /// How much stands before the payload of a publication of "t".
    const BEFORE: usize = HEADER + 2 + 1;

    #[test]
    fn what_is_shared_and_what_is_copied_is_bounded() {
        let mut log = FrameLog::default();
        for (size, is_shared) in [(4096 - BEFORE, true), (4096 - BEFORE + 1, false)] {
            let mut publication = publication(size);
            publication.share(&mut log);
            assert_eq!(publication.size(), size);
            assert_eq!(
                matches!(publication, EncodedPublication::Shared(_)),
                is_shared
            );
        }
        for (size, inline) in [(16_384, 16_384), (16_385, 0)] {
            let frame = PublicationFrame::new(&"t".parse().unwrap(), vec![1; size].into());
            assert_eq!(frame.head.len(), BEFORE + inline);
            assert_eq!((frame.tail.len(), frame.size), (size - inline, size));
        }
    }

    #[test]
    fn a_run_is_written_as_its_frames_are() {
        for size in [10, 3000] {
            let mut log = FrameLog::default();
            let (mut whole, mut apart) = (SendBuffer::default(), SendBuffer::default());
            let mut runs: Vec<PublicationRun> = Vec::new();
            for _ in 0..100 {
                let mut publication = publication(size);
                if let EncodedPublication::Single(frame) = &publication {
                    frame.put_into(&mut apart);
                }
                publication.share(&mut log);
                let EncodedPublication::Shared(run) = publication else {
                    panic!("a small one");
                };
                if !runs.last_mut().is_some_and(|last| last.extend(&run)) {
                    runs.push(run);
                }
            }
            // As many as chunks: neighbours are one piece.
            assert_eq!(
                runs.len(),
                (100 * (size + BEFORE)).div_ceil(65_536 / 3008 * 3008)
            );
            for run in &runs {
                run.put_into(&mut whole);
            }
            assert_eq!(whole.len(), apart.len());
            assert_eq!(whole.len(), 100 * (size + BEFORE));
            let messages: usize = runs.iter().map(|run| run.messages).sum();
            assert_eq!(messages, 100);
        }
    }
}
