//! Who is connected and who takes what; publishing.

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{Publisher, Result, Topic};

use crate::unwritten;

/// Publishes for one server.
#[derive(Debug)]
pub(crate) struct TemplatePublisher;

#[async_trait]
impl Publisher for TemplatePublisher {
    async fn publish(&self, _topic: &Topic, _payload: Bytes) -> Result<()> {
        Err(unwritten(
            "Publisher::publish",
            "queue it for every connection that subscribed, within its limits and without waiting \
             for any of them",
            "8. Publications",
        ))
    }

    fn subscriptions(&self, _topic: &Topic) -> usize {
        0
    }
}
