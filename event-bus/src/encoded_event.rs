//! An event as it travels.

use bytes::Bytes;
use saline_data::Value;
use saline_messages::{Event, EventOrigin};
use saline_protocol::transport::{Topic, TopicError};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

/// The name of the time of an event in its data, which is Salt's.
pub const STAMP: &str = "_stamp";

/// The form of that time.
const STAMP_FORMAT: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]+00:00");

/// An event as it travels.
#[derive(Debug)]
pub struct EncodedEvent {
    /// The topic of its tag.
    pub topic: Topic,
    /// The event as it is published.
    pub bytes: Bytes,
}

/// Encodes an event of this time. A time in its data is replaced.
///
/// # Errors
/// When the tag cannot be one.
pub fn encode<K: Into<String>>(
    tag: &str,
    origin: EventOrigin,
    data: impl IntoIterator<Item = (K, Value)>,
    time: OffsetDateTime,
) -> Result<EncodedEvent, TopicError> {
    let mut entries: Vec<(String, Value)> = data.into_iter().map(|(k, v)| (k.into(), v)).collect();
    // Data that somebody gave may have one.
    entries.retain(|(name, _)| name != STAMP);
    entries.push((STAMP.to_owned(), Value::from(stamp(time))));
    let topic = Event::topic(tag)?;
    let event = Event {
        tag: tag.to_owned(),
        origin,
        data: Value::Map(entries),
    };
    // Encoded before it waits: as values it takes many times its size.
    let bytes = event.encode();
    Ok(EncodedEvent { topic, bytes })
}

/// Returns the stamp of an event of this time.
pub fn stamp(time: OffsetDateTime) -> String {
    time.format(STAMP_FORMAT).unwrap_or_default()
}
