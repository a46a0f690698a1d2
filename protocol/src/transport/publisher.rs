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
///   alone loses messages, and is told by [`Delivery::Lagged`](super::Delivery::Lagged) (`PUB-007`).
/// - Order is kept within a topic: what was taken first is delivered first. Nothing is delivered
///   twice (`PUB-002`, `PUB-013`).
#[async_trait]
pub trait Publisher: Send + Sync + fmt::Debug {
    /// Hands `payload` to every subscriber of `topic`. Returns when the backend has taken it, which
    /// does not say that anybody has it; that nobody subscribed is no error.
    ///
    /// # Errors
    /// - `TooLarge`: the payload is above [`max_message`](super::Limits::max_message). Nobody gets it.
    /// - `Closed`: the server has been shut down, or its context was cancelled.
    ///
    /// # Cancel safety
    /// When the future is dropped the message was taken or it was not; never a part of it (`CAN-008`).
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()>;

    /// How many subscriptions there are that take `topic`, each subscriber of a client for itself: with a new one as soon as its `subscribe`
    /// has returned, without one soon after it was dropped or its client has gone, without a FIN too
    /// (`PUB-011`, `CON-026`).
    fn subscriptions(&self, topic: &Topic) -> usize;
}
