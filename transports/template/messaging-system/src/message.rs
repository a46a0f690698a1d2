//! What the two ends say to each other, as bytes.
#![allow(
    dead_code,
    reason = "a skeleton; take this out when your client and your server speak"
)]

use bytes::Bytes;
use saline_protocol::transport::{Error, Result, Topic, TopicFilter};

use crate::unwritten;

/// A message. A messaging system may have some of these itself: its own subscriptions, its own pings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
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

impl Message {
    /// Returns the message's bytes.
    pub(crate) fn encode(&self) -> Result<Bytes> {
        Err(unfinished("Message::encode"))
    }

    /// Takes bytes apart that anybody may have sent. Check a length before you allocate for it.
    pub(crate) fn decode(_bytes: &Bytes) -> Result<Self> {
        Err(unfinished("Message::decode"))
    }
}

fn unfinished(place: &str) -> Error {
    unwritten(
        place,
        "a number for every request and subscription, so that answers find their askers in any order",
        "8. Messages",
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
        let message = payload.clone();
        for message in [
            Message::Request { id: 1, payload },
            Message::NoReply(2),
            Message::Subscribe { id: 3, filters },
            Message::Publication {
                topic,
                payload: message,
            },
            Message::Lagged { id: 3, count: 4 },
        ] {
            // Until it is written, it says so; from then on, this holds.
            match message.encode().and_then(|bytes| Message::decode(&bytes)) {
                Ok(decoded) => assert_eq!(decoded, message),
                Err(error) => assert!(error.to_string().contains("8. Messages"), "{error}"),
            }
        }
    }
}
