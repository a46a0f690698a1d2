//! The bytes on the wire.
//!
//! Whatever carries them, it needs these: a request and a reply with the number of the request, that
//! there will be no reply, a subscription and its confirmation with the number of the subscription, a
//! publication with its topic, a loss, and a sign of life.
#![allow(
    dead_code,
    reason = "a skeleton; take this out when your client and your server speak"
)]

use bytes::Bytes;
use saline_protocol::transport::{Error, Result, Topic, TopicFilter};

use crate::unwritten;

/// What is said over a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    Request { id: u64, payload: Bytes },
    Reply { id: u64, payload: Bytes },
    NoReply(u64),
    Subscribe { id: u64, filters: Vec<TopicFilter> },
    Subscribed(u64),
    Unsubscribe(u64),
    Publication { topic: Topic, payload: Bytes },
    Lagged { id: u64, count: u64 },
    Ping,
}

impl Frame {
    /// The frame's bytes.
    pub(crate) fn encode(&self) -> Result<Bytes> {
        Err(unfinished("Frame::encode"))
    }

    /// Takes bytes apart that anybody may have sent. Check a length before you allocate for it.
    pub(crate) fn decode(_bytes: &Bytes) -> Result<Self> {
        Err(unfinished("Frame::decode"))
    }
}

fn unfinished(place: &str) -> Error {
    unwritten(
        place,
        "a number for every request and subscription, so that answers find their askers in any order",
        "4. Frames",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let topic: Topic = "job/all".parse().unwrap();
        let payload = Bytes::from_static(b"payload");
        let filters = vec![TopicFilter::Exact(topic.clone())];
        for frame in [
            Frame::Request {
                id: 1,
                payload: payload.clone(),
            },
            Frame::Reply {
                id: 1,
                payload: payload.clone(),
            },
            Frame::NoReply(2),
            Frame::Subscribe { id: 3, filters },
            Frame::Subscribed(3),
            Frame::Unsubscribe(3),
            Frame::Publication { topic, payload },
            Frame::Lagged { id: 3, count: 4 },
            Frame::Ping,
        ] {
            // Until it is written, it says so; from then on, this holds.
            match frame.encode().and_then(|bytes| Frame::decode(&bytes)) {
                Ok(decoded) => assert_eq!(decoded, frame),
                Err(error) => assert!(error.to_string().contains("4. Frames"), "{error}"),
            }
        }
    }
}
