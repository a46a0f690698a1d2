//! Events: a tag and data, MessagePack on the local bus, which any language reads.

use serde::{Deserialize, Serialize};

use super::{Packed, UnpackError, Value};
use crate::transport::{Topic, TopicError};

/// An event on the bus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The tag: segments with `/` between them.
    pub tag: String,
    /// The data: a mapping, always with `_stamp` (UTC, ISO 8601).
    pub data: Value,
}

impl Event {
    /// Encodes the event: a MessagePack mapping of `tag` and `data`.
    pub fn encode(&self) -> Vec<u8> {
        let value = Value::map([
            ("tag", Value::from(self.tag.as_str())),
            ("data", self.data.clone()),
        ]);
        Packed::pack(&value).as_bytes().to_vec()
    }

    /// Decodes an event.
    ///
    /// # Errors
    /// When the bytes are not what [`encode`](Self::encode) writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, UnpackError> {
        let value = Packed::from_bytes(bytes.to_vec()).unpack()?;
        Ok(Self {
            tag: value
                .get("tag")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            data: value.get("data").cloned().unwrap_or_default(),
        })
    }

    /// Returns the local topic of events with this tag: `event/<tag>`.
    ///
    /// # Errors
    /// When the tag has too many segments, or characters that topics do not have.
    pub fn topic(tag: &str) -> Result<Topic, TopicError> {
        Topic::parse(&format!("event/{tag}"))
    }
}
