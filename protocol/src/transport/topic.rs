//! Topics and what a subscriber may ask for.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The most segments that a topic has.
pub const MAX_TOPIC_SEGMENTS: usize = 8;
/// The most bytes that a topic has, separators included.
pub const MAX_TOPIC_BYTES: usize = 512;

/// The reason why a text is not a topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopicError {
    /// More than [`MAX_TOPIC_BYTES`].
    #[error("a topic has at most {MAX_TOPIC_BYTES} bytes, not {0}")]
    TooLong(usize),
    /// More than [`MAX_TOPIC_SEGMENTS`].
    #[error("a topic has at most {MAX_TOPIC_SEGMENTS} segments")]
    TooManySegments,
    /// `a//b`, `/a`, or nothing at all.
    #[error("a topic's segments are not empty")]
    EmptySegment,
    /// Something other than visible ASCII.
    #[error("a topic is made of visible ASCII characters, not {0:?}")]
    Character(char),
}

/// One to eight segments of visible ASCII, written with `/` between them, 512 bytes in all.
///
/// Segments map to ZeroMQ prefixes (each ends in `/`) and to the subjects of brokers.
///
/// ```
/// use saline_protocol::transport::Topic;
/// let topic: Topic = "job/all".parse().unwrap();
/// assert_eq!(topic.segments().collect::<Vec<_>>(), ["job", "all"]);
/// assert!("job//all".parse::<Topic>().is_err());
/// ```
///
/// A clone shares the text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic(Arc<str>);

impl Topic {
    /// Checks `text` and makes a topic of it; `text.parse()` is the same.
    ///
    /// # Errors
    /// When the text breaks one of the rules of [`TopicError`].
    pub fn parse(text: &str) -> Result<Self, TopicError> {
        if text.len() > MAX_TOPIC_BYTES {
            return Err(TopicError::TooLong(text.len()));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let bad = text.chars().find(|c| !c.is_ascii_graphic());
            return Err(TopicError::Character(bad.unwrap_or_default()));
        }
        let mut count = 0;
        for segment in text.split('/') {
            count += 1;
            if segment.is_empty() {
                return Err(TopicError::EmptySegment);
            }
        }
        if count > MAX_TOPIC_SEGMENTS {
            return Err(TopicError::TooManySegments);
        }
        Ok(Self(text.into()))
    }

    /// The topic as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the segments, in order.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
}

impl FromStr for Topic {
    type Err = TopicError;
    fn from_str(text: &str) -> Result<Self, TopicError> {
        Self::parse(text)
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topic({})", self.0)
    }
}

/// The filter of a subscription: one topic, or all topics whose first segments are these. There is no
/// filter for everything, and none with a gap in the middle, because not every wire has them.
///
/// ```
/// use saline_protocol::transport::{Topic, TopicFilter};
///
/// let topic = |text| Topic::parse(text).unwrap();
/// let jobs = TopicFilter::Prefix(topic("salt/job"));
/// assert!(jobs.matches(&topic("salt/job/20261121/new")));
/// assert!(!jobs.matches(&topic("salt/jobs")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TopicFilter {
    /// This topic and no other.
    Exact(Topic),
    /// This topic and every topic that continues it by whole segments: `a/b` takes `a/b` and `a/b/c`, never `a/bc`.
    Prefix(Topic),
}

impl TopicFilter {
    /// Whether `topic` is one of those asked for.
    pub fn matches(&self, topic: &Topic) -> bool {
        match self {
            Self::Exact(exact) => exact == topic,
            Self::Prefix(prefix) => topic
                .as_str()
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        }
    }

    /// The topic that the filter was made of.
    pub fn topic(&self) -> &Topic {
        match self {
            Self::Exact(topic) | Self::Prefix(topic) => topic,
        }
    }
}

impl fmt::Display for TopicFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(topic) => write!(f, "{topic}"),
            Self::Prefix(topic) => write!(f, "{topic}/*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn topic(text: &str) -> Topic {
        text.parse().unwrap()
    }

    #[test]
    fn a_prefix_is_whole_segments() {
        let filter = TopicFilter::Prefix(topic("a/b"));
        assert!(filter.matches(&topic("a/b")));
        assert!(filter.matches(&topic("a/b/c")));
        assert!(!filter.matches(&topic("a/bc")));
        assert!(!filter.matches(&topic("a")));
    }

    #[test]
    fn exact_takes_no_more() {
        let filter = TopicFilter::Exact(topic("a/b"));
        assert!(filter.matches(&topic("a/b")));
        assert!(!filter.matches(&topic("a/b/c")));
    }

    #[test]
    fn the_limits_are_exact() {
        assert!(Topic::parse("1/2/3/4/5/6/7/8").is_ok());
        assert_eq!(
            Topic::parse("1/2/3/4/5/6/7/8/9"),
            Err(TopicError::TooManySegments)
        );
        assert!(Topic::parse(&"x".repeat(512)).is_ok());
        assert_eq!(
            Topic::parse(&"x".repeat(513)),
            Err(TopicError::TooLong(513))
        );
        assert_eq!(Topic::parse(""), Err(TopicError::EmptySegment));
        assert_eq!(Topic::parse("a b"), Err(TopicError::Character(' ')));
    }

    proptest! {
        #[test]
        fn what_parses_is_within_the_rules(text in ".{0,600}") {
            if let Ok(topic) = Topic::parse(&text) {
                prop_assert!(topic.as_str().len() <= MAX_TOPIC_BYTES);
                prop_assert!((1..=MAX_TOPIC_SEGMENTS).contains(&topic.segments().count()));
                prop_assert!(topic.segments().all(|s| !s.is_empty()));
            }
        }
    }
}
