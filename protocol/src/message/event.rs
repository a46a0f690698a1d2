//! Events: a tag and data, on the local bus as MessagePack that any language reads.

use serde::{Deserialize, Serialize};

use super::{Packed, UnpackError, Value};
use crate::transport::{Topic, TopicError};

/// What is told on the bus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What kind, in segments with `/` between them.
    pub tag: String,
    /// What about; a mapping, with `_stamp` (UTC, ISO 8601) always in it.
    pub data: Value,
}

impl Event {
    /// The bytes on the bus: a MessagePack mapping of `tag` and `data`.
    pub fn encode(&self) -> Vec<u8> {
        let value = Value::map([
            ("tag", Value::from(self.tag.as_str())),
            ("data", self.data.clone()),
        ]);
        Packed::pack(&value).as_bytes().to_vec()
    }

    /// Reads the bytes on the bus.
    ///
    /// # Errors
    /// When they are not what [`encode`](Self::encode) writes.
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

    /// The topic on which an event of `tag` is published locally: `event/<tag>`.
    ///
    /// # Errors
    /// When the tag has too many segments, or characters that no topic has.
    pub fn topic(tag: &str) -> Result<Topic, TopicError> {
        Topic::parse(&format!("event/{tag}"))
    }
}
