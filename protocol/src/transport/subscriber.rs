//! Receiving publications.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use super::Topic;

/// How much was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lost {
    /// That many messages.
    Messages(u64),
    /// Something; the backend cannot say how much.
    Unknown,
}

/// What a subscriber yields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// A publication.
    Message {
        /// The topic that it was published on.
        topic: Topic,
        /// What was published.
        payload: Bytes,
    },
    /// Publications that this subscriber asked for were lost at this place in the stream. Told
    /// within two link pings, also when the last one was lost.
    Lagged(Lost),
    /// The link is up again and every subscription is confirmed. What was published meanwhile was missed.
    Connected,
    /// The link is down. Once for each change: `Connected` and `Disconnected` alternate, and the
    /// link that stood when `subscribe` returned is not announced.
    Disconnected,
}

/// A confirmed subscription. Dropping it withdraws it.
#[async_trait]
pub trait Subscriber: Send + fmt::Debug {
    /// What comes next; `None` once the client has been shut down, and for ever after.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    async fn next(&mut self) -> Option<Delivery>;

    /// What comes next, if it is there already: for readers that take many. It yields what
    /// [`next`](Self::next) would, in the same order, and `None` says nothing but "not now", so that
    /// a backend without a queue of its own need not write it.
    fn try_next(&mut self) -> Option<Delivery> {
        None
    }
}
