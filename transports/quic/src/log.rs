//! Publications as they are handed to connections: those that many take are written down once.

use bytes::Bytes;
use saline_engine::{FrameLog, FrameRun};
use saline_protocol::transport::Topic;

use crate::frame::{COPIED, LARGE, message_head};

/// What has at most so many takers is not written down, because each would keep a whole chunk.
const FEW: usize = 4;

/// A publication, encoded once for all who get it.
#[derive(Debug)]
pub(crate) enum Encoded {
    /// A frame in the log.
    Logged(FrameRun),
    /// A frame by itself.
    Apart(Bytes),
    /// The topic, which is announced in its place, and the message, which travels alone.
    Large(Bytes, Bytes, Bytes),
}

impl Encoded {
    /// Encodes a publication for so many takers, into `log` if that serves.
    pub(crate) fn new(log: &mut FrameLog, topic: &Topic, payload: &Bytes, takers: usize) -> Self {
        let mut frame = message_head(topic, payload.len());
        if payload.len() > LARGE {
            let name = Bytes::copy_from_slice(topic.as_str().as_bytes());
            return Self::Large(name, frame.freeze(), payload.clone());
        }
        frame.extend_from_slice(payload);
        if takers <= FEW || frame.len() > COPIED {
            return Self::Apart(frame.freeze());
        }
        Self::Logged(log.add(&frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_or_for_few_stands_by_itself() {
        let (mut log, topic) = (FrameLog::default(), "t".parse().unwrap());
        let mut encode =
            |size, takers| Encoded::new(&mut log, &topic, &Bytes::from(vec![1; size]), takers);
        assert!(matches!(encode(100, FEW + 1), Encoded::Logged(_)));
        assert!(matches!(encode(100, FEW), Encoded::Apart(_)));
        assert!(matches!(encode(COPIED, FEW + 1), Encoded::Apart(_)));
        assert!(matches!(encode(LARGE + 1, FEW + 1), Encoded::Large(..)));
    }
}
