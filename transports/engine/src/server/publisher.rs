//! Publishing.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{Error, Metric, Publisher, Result, Topic};
use tokio_util::sync::DropGuard;

use super::ServerCore;
use crate::wire::EncodedPublication;

/// Publishes for one server.
#[derive(Debug)]
pub(super) struct EnginePublisher {
    pub(super) core: Arc<ServerCore>,
    pub(super) _alive: Arc<DropGuard>,
}

#[async_trait]
impl Publisher for EnginePublisher {
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        // Encoded before the lock, which all publishers share.
        let encoded = EncodedPublication::new(topic, payload);
        // Under the lock, so that every subscriber sees the same order. The hub is locked before the
        // queue of a connection.
        let published = self.core.hub().publish(
            topic,
            encoded,
            |connection, number, publication, subscription| {
                connection.publish(number, publication, subscription)
            },
        );
        let published = published.ok_or_else(Error::closed)?;
        if published.lost > 0 {
            let metrics = &self.core.lifetime.context.metrics;
            metrics.add(Metric::Lost, published.lost);
        }
        if published.is_behind {
            // Some queue is half full: its writer has a turn before it overflows, even if there is
            // one thread for all.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn subscriptions(&self, topic: &Topic) -> usize {
        self.core.hub().subscriptions(topic)
    }
}
