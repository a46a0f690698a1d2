//! Handing publications to subscriptions.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{Publisher, Result, Topic};
use tokio_util::sync::DropGuard;

use crate::state::ServerCore;

/// Publishes for one server.
#[derive(Debug)]
pub(crate) struct InProcPublisher {
    pub(crate) core: Arc<ServerCore>,
    /// Ends the server with its last part.
    pub(crate) _alive: Arc<DropGuard>,
}

#[async_trait]
impl Publisher for InProcPublisher {
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        self.core.publish(topic, &payload)
    }

    fn subscriptions(&self, topic: &Topic) -> usize {
        self.core.subscriptions(topic)
    }
}
