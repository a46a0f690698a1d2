//! The two halves of a measurement, whatever they run on.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::Result;
use crate::transports::flow_limit::FlowLimit;

/// The half that serves: it echoes requests, or publishes.
#[async_trait]
pub(crate) trait ServerSide: Send {
    /// Returns the addresses at which it serves, for its own [`ClientSide`].
    fn at(&self) -> Vec<String>;

    /// Waits until so many subscribers are known.
    async fn subscribed(&mut self, subscribers: usize) -> Result<()>;

    /// Publishes `payload` so many times.
    async fn publish(&mut self, payload: &Bytes, times: u64) -> Result<()>;

    /// Ends.
    async fn stop(self: Box<Self>) -> Result<()>;
}

/// The half with the clients.
#[async_trait]
pub(crate) trait ClientSide: Send {
    /// Keeps `outstanding` requests of `bytes` on the way, and returns how many were answered. It
    /// asks no more after `run`, and returns when all are answered.
    async fn ask(&mut self, outstanding: usize, bytes: usize, run: Duration) -> Result<u64>;

    /// Subscribes so many times, with a connection each, and counts messages of `bytes`.
    async fn subscribe(
        &mut self,
        subscribers: usize,
        bytes: usize,
        limit: &Arc<FlowLimit>,
    ) -> Result<()>;
}

/// The first of what a server process wrote.
pub(crate) fn first(at: &[String]) -> Result<String> {
    Ok(at.first().ok_or("no address")?.clone())
}
