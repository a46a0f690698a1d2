//! Receiving publications.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use super::Topic;

/// How much was lost. Under [`DropAccounting::Exact`](super::DropAccounting::Exact) always a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lost {
    /// This many messages were lost, at least one.
    Messages(u64),
    /// Something; the backend cannot say how much.
    Unknown,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Messages(1) => f.write_str("one message"),
            Self::Messages(count) => write!(f, "{count} messages"),
            Self::Unknown => f.write_str("an unknown number of messages"),
        }
    }
}

/// An item that a subscriber yields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// A publication.
    Message {
        /// The topic that it was published on.
        topic: Topic,
        /// The message that was published.
        payload: Bytes,
    },
    /// Publications that this subscriber asked for were lost at this place in the stream, while the
    /// link stood. Told within two [`ping_interval`](super::Limits::ping_interval)s, also when the
    /// last one was lost and nothing follows it (`PUB-008`, `PUB-009`).
    Lagged(Lost),
    /// The link is up again and this subscription is confirmed on it: the very next publication
    /// arrives (`CON-007`). What was published since the link broke was missed, also what was on its
    /// way then, and no `Lagged` says so besides.
    Connected,
    /// The link is down. Once for each change: `Disconnected` comes first, then the two alternate,
    /// and the link that stood when `subscribe` returned is not announced (`CON-006`).
    Disconnected,
}

/// A confirmed subscription. Dropping it withdraws it.
///
/// # Contract
/// - While it keeps up and the link stands, nothing published on its topics is missed.
/// - Messages of one topic come in the order in which they were published. None comes twice, also when
///   several of its filters take it (`PUB-002`, `PUB-005`).
/// - What it does not read waits in a bounded queue, and above that is lost and told, at its place in
///   the stream.
/// - It survives the link: the client subscribes again by itself, and says so by
///   [`Disconnected`](Delivery::Disconnected) and [`Connected`](Delivery::Connected).
///
/// ```
/// use saline_protocol::transport::{Client, Delivery, Instant, Result, Topic, TopicFilter};
///
/// async fn follow(client: &dyn Client, topic: Topic, deadline: Instant) -> Result<()> {
///     let filters = vec![TopicFilter::Prefix(topic)];
///     let mut subscriber = client.subscribe(None, filters, deadline).await?;
///     let mut batch = Vec::new();
///     // What is there already is taken without another wait, so many at once at most.
///     while subscriber.next_batch(&mut batch, 64).await > 0 {
///         for delivery in batch.drain(..) {
///             match delivery {
///                 Delivery::Message { topic, payload } => println!("{topic}: {}", payload.len()),
///                 Delivery::Lagged(_) | Delivery::Connected => println!("ask for what was missed"),
///                 _ => {}
///             }
///         }
///     }
///     Ok(())
/// }
/// ```
#[async_trait]
pub trait Subscriber: Send + fmt::Debug {
    /// Returns what comes next; `None` once the client has been shut down or dropped, or its context was
    /// cancelled, and for ever after; also after [`Disconnected`](Delivery::Disconnected) when a server
    /// that came back refuses this subscription, while the client stays connected (`CON-035`). What is
    /// still queued then may be read before it.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped (`CAN-002`).
    async fn next(&mut self) -> Option<Delivery>;

    /// Takes up to `most` deliveries, in the order of [`next`](Self::next): waits for the first, and
    /// adds what is there already (`PUB-018`). Returns how many were added to `into`; 0 means what
    /// `None` means there. For readers under load: one call hands over many deliveries. A `most` of 0
    /// counts as 1.
    ///
    /// The default takes one, which is right for a backend without a queue of its own.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: what was taken is in `into`.
    async fn next_batch(&mut self, into: &mut Vec<Delivery>, most: usize) -> usize {
        let _ = most;
        let delivery = self.next().await;
        let taken = usize::from(delivery.is_some());
        into.extend(delivery);
        taken
    }
}
