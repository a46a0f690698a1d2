//! Publishing.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{Error, Publisher, Result, Topic};
use tokio_util::sync::DropGuard;

use super::ServerCore;
use crate::wire::PublicationFrame;

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
        let frame = PublicationFrame::new(topic, payload);
        let published = self.core.publish(topic, &frame).ok_or_else(Error::closed)?;
        if published.is_behind {
            // Writers have their turns before a queue overflows, and before clients have waited for long,
            // even if there is one thread for all.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn subscriptions(&self, topic: &Topic) -> usize {
        self.core.hub().subscriptions(topic)
    }
}
