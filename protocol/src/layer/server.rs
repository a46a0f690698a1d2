//! The serving side in the layer.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::metrics::MeteredRequests;
use crate::transport::{Error, Metric, MetricsSink, Publisher, Result, Server, Topic};

/// Puts the parts of `server` into the layer.
pub(super) fn layered(
    mut server: Server,
    max_message: usize,
    sink: Arc<dyn MetricsSink>,
) -> Server {
    let requests = MeteredRequests::new(server.requests, Arc::clone(&sink));
    server.requests = Box::new(requests);
    server.publisher = Arc::new(LayeredPublisher {
        inner: server.publisher,
        max_message,
        sink,
    });
    server
}

/// A publisher that keeps to its limit and counts.
#[derive(Debug)]
struct LayeredPublisher {
    inner: Arc<dyn Publisher>,
    max_message: usize,
    sink: Arc<dyn MetricsSink>,
}

#[async_trait]
impl Publisher for LayeredPublisher {
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        let size = payload.len();
        if size > self.max_message {
            return Err(Error::too_large("a publication", size, self.max_message));
        }
        self.inner.publish(topic, payload).await?;
        self.sink.add(Metric::Published, 1);
        self.sink.add(Metric::BytesSent, size as u64);
        Ok(())
    }

    fn subscriptions(&self, topic: &Topic) -> usize {
        self.inner.subscriptions(topic)
    }
}
