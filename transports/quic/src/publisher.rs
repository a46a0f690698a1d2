//! Publishing.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{Publisher, Result, Topic};

use crate::server::Alive;
use crate::state::ServerCore;

/// Publishes for one server.
#[derive(Debug)]
pub(crate) struct QuicPublisher {
    pub(crate) core: Arc<ServerCore>,
    pub(crate) _alive: Arc<Alive>,
}

#[async_trait]
impl Publisher for QuicPublisher {
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        self.core.publish(topic, &payload)?;
        // Whoever publishes in a loop lets those have a turn who carry it away.
        tokio::task::consume_budget().await;
        Ok(())
    }

    fn subscriptions(&self, topic: &Topic) -> usize {
        self.core.subscriptions(topic)
    }
}
