//! Events: a tag, an origin and data, MessagePack on the local bus, which any language reads.

use bytes::Bytes;

use super::EventOrigin;
use saline_data::unpack_within;
use saline_data::{MAX_DEPTH, MAX_VALUES, Packed, UnpackError, Value};
use saline_protocol::transport::{Topic, TopicError};

/// How deeply an event may nest: around a return stand its own mapping and that of its data.
const EVENT_DEPTH: usize = MAX_DEPTH + 4;

/// How many values an event may hold: those of the arguments, those of the return, and its own.
const EVENT_VALUES: usize = 2 * MAX_VALUES + 1_000;

/// The most bytes of the packed arguments of `event.send` that fire the event of a hook. What is posted stands in them twice, as text
/// and as the values that it holds: 1 MiB of JSON, as much as an API takes by default, fits in.
pub const MAX_HOOK_ARGUMENTS: usize = 4 * 1024 * 1024;

/// An event on the bus.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The tag: segments with `/` between them.
    pub tag: String,
    /// The party that caused the event. The master sets it.
    pub origin: EventOrigin,
    /// The data: a mapping, always with `_stamp` (UTC, ISO 8601).
    pub data: Value,
}

impl Event {
    /// Encodes the event: a MessagePack mapping of `tag`, `origin` and `data`.
    pub fn encode(&self) -> Bytes {
        let entries = [
            ("tag", &Value::from(self.tag.as_str())),
            ("origin", &self.origin.to_value()),
            ("data", &self.data),
        ];
        Packed::pack_map(&entries).into_bytes()
    }

    /// Decodes an event. What a minion may return can be read in its event too, though it nests deeper
    /// there.
    ///
    /// # Errors
    /// When the bytes are not what [`encode`](Self::encode) writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, UnpackError> {
        let mut value = unpack_within(bytes, EVENT_DEPTH, EVENT_VALUES)?;
        let mut take = |name| value.get_mut(name).map(std::mem::take);
        Ok(Self {
            tag: match take("tag") {
                Some(Value::Text(tag)) => tag,
                _ => String::new(),
            },
            origin: EventOrigin::from_value(&take("origin").unwrap_or_default()),
            data: take("data").unwrap_or_default(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the deepest and the longest values that a minion may return.
    fn extremes() -> [Value; 2] {
        let nested = |depth: usize| Packed::from_bytes([vec![0x91; depth], vec![0xc0]].concat());
        let deepest = (1..=MAX_DEPTH)
            .rev()
            .find_map(|depth| nested(depth).unpack().ok());
        [
            deepest.unwrap(),
            Value::List(vec![Value::Null; MAX_VALUES - 1]),
        ]
    }

    #[test]
    fn a_minions_return_does_not_hide_its_event() {
        for value in extremes() {
            assert_eq!(Packed::pack(&value).unpack().unwrap(), value);
            let event = Event {
                tag: "salt/job/20261121091409931549/ret/m1".to_owned(),
                origin: EventOrigin::master(),
                data: Value::map([("fun_args", value.clone()), ("return", value)]),
            };
            assert_eq!(Event::decode(&event.encode()).unwrap(), event);
        }
    }
}
