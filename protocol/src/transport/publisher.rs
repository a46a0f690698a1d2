//! Sending to subscribers.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Result, Topic};

/// Sends to whoever subscribed.
///
/// # Contract
/// - Never waits for a slow subscriber: when its queue
///   ([`subscriber_queue_messages`](super::Limits::subscriber_queue_messages),
///   [`subscriber_queue_bytes`](super::Limits::subscriber_queue_bytes)) is full, that subscriber
///   alone loses messages and is told.
/// - Order is kept within a topic, and nothing is delivered twice.
#[async_trait]
pub trait Publisher: Send + Sync + fmt::Debug {
    /// Hands `payload` to every subscriber of `topic`. Returns when the backend has taken it, which
    /// does not say that anybody has it.
    ///
    /// # Errors
    /// `TooLarge` above [`max_message`](super::Limits::max_message); `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// When the future is dropped the message was taken or it was not; never a part of it.
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()>;

    /// How many subscriptions there are that take `topic`.
    fn subscriptions(&self, topic: &Topic) -> usize;
}
