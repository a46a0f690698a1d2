//! Events of the master's bus.

use saline_messages::Event;
use saline_protocol::transport::{Delivery, Lost, Subscriber, Topic, TopicFilter};

use crate::ClientError;

/// A choice of events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EventFilter {
    /// All events.
    #[default]
    All,
    /// Events whose tags begin with these whole segments, such as `salt/job`.
    Below(String),
}

impl EventFilter {
    /// Returns the topics to subscribe to.
    pub(crate) fn topics(&self) -> Result<Vec<TopicFilter>, ClientError> {
        let topic = match self {
            Self::All => Topic::parse("event"),
            Self::Below(tag) => Event::topic(tag.trim_matches('/')),
        };
        let topic = topic.map_err(|error| ClientError::BadTag(error.to_string()))?;
        Ok(vec![TopicFilter::Prefix(topic)])
    }
}

/// An event, or a change of the subscription.
#[derive(Debug, Clone, PartialEq)]
pub enum BusEvent {
    /// An event.
    Event(Event),
    /// Events were lost at this place.
    Lost(Lost),
    /// The connection to the master is lost; events are missed meanwhile.
    Disconnected,
    /// The connection to the master is back.
    Connected,
}

/// A subscription to the bus. Dropping it withdraws it.
#[derive(Debug)]
pub struct Events(pub(crate) Box<dyn Subscriber>);

impl Events {
    /// Returns the next event; none, from then on, once the client has been shut down.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<BusEvent> {
        loop {
            return Some(match self.0.next().await? {
                Delivery::Message { topic, payload } => match Event::decode(&payload) {
                    Ok(event) => BusEvent::Event(event),
                    Err(error) => {
                        tracing::warn!(%topic, %error, "ignored a malformed event on the bus");
                        continue;
                    }
                },
                Delivery::Lagged(lost) => BusEvent::Lost(lost),
                Delivery::Connected => BusEvent::Connected,
                Delivery::Disconnected => BusEvent::Disconnected,
                _ => continue,
            });
        }
    }
}
