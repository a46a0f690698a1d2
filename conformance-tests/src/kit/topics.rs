//! Topics by their text.

use saline_protocol::transport::{Topic, TopicFilter};

use crate::{Failure, Outcome};

/// The topic that `text` names.
///
/// # Errors
/// When it names none.
pub fn topic(text: &str) -> Outcome<Topic> {
    Topic::parse(text).map_err(|error| Failure::new(format!("topic {text:?}: {error}")))
}

/// A filter for that topic alone.
///
/// # Errors
/// When it is none.
pub fn exact(text: &str) -> Outcome<TopicFilter> {
    topic(text).map(TopicFilter::Exact)
}

/// A filter for that topic and everything beneath.
///
/// # Errors
/// When it is none.
pub fn prefix(text: &str) -> Outcome<TopicFilter> {
    topic(text).map(TopicFilter::Prefix)
}
