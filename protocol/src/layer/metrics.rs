//! Counts what passes. Links, losses and refused peers are counted by the backends, which alone see them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::transport::{
    Capabilities, Client, Context, Delivery, Endpoint, Instant, Metric, MetricsSink, OptionSpec,
    Publisher, Request, Requests, Result, ServeAt, Server, Subscriber, Topic, TopicFilter,
    Transport,
};

/// A transport that counts into its context's sink.
#[derive(Debug)]
pub struct Metered {
    inner: Arc<dyn Transport>,
}

impl Metered {
    /// Puts `inner` into this layer.
    pub fn new(inner: Arc<dyn Transport>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl Transport for Metered {
    fn scheme(&self) -> &'static str {
        self.inner.scheme()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn options(&self) -> &'static [OptionSpec] {
        self.inner.options()
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        let sink = Arc::clone(&context.metrics);
        let mut server = self.inner.serve(at, context).await?;
        server.requests = Box::new(MeteredRequests {
            inner: server.requests,
            sink: Arc::clone(&sink),
        });
        server.publisher = Arc::new(MeteredPublisher {
            inner: server.publisher,
            sink,
        });
        Ok(server)
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        let sink = Arc::clone(&context.metrics);
        let inner = self.inner.connect(endpoint, context).await?;
        Ok(Arc::new(MeteredClient { inner, sink }))
    }
}

#[derive(Debug)]
struct MeteredRequests {
    inner: Box<dyn Requests>,
    sink: Arc<dyn MetricsSink>,
}

#[async_trait]
impl Requests for MeteredRequests {
    async fn next(&mut self) -> Option<Request> {
        let request = self.inner.next().await?;
        self.count(std::slice::from_ref(&request));
        Some(request)
    }

    async fn next_batch(&mut self, into: &mut Vec<Request>, most: usize) -> usize {
        let taken = self.inner.next_batch(into, most).await;
        self.count(&into[into.len().saturating_sub(taken)..]);
        taken
    }
}

impl MeteredRequests {
    fn count(&self, requests: &[Request]) {
        let size = |request: &Request| request.payload.len() as u64;
        let bytes = requests.iter().map(size).sum();
        self.sink
            .add(Metric::RequestsReceived, requests.len() as u64);
        self.sink.add(Metric::BytesReceived, bytes);
    }
}

#[derive(Debug)]
struct MeteredPublisher {
    inner: Arc<dyn Publisher>,
    sink: Arc<dyn MetricsSink>,
}

#[async_trait]
impl Publisher for MeteredPublisher {
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        let size = payload.len() as u64;
        self.inner.publish(topic, payload).await?;
        self.sink.add(Metric::Published, 1);
        self.sink.add(Metric::BytesSent, size);
        Ok(())
    }

    fn subscriptions(&self, topic: &Topic) -> usize {
        self.inner.subscriptions(topic)
    }
}

#[derive(Debug)]
struct MeteredClient {
    inner: Arc<dyn Client>,
    sink: Arc<dyn MetricsSink>,
}

#[async_trait]
impl Client for MeteredClient {
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        self.sink.add(Metric::RequestsSent, 1);
        self.sink.add(Metric::BytesSent, payload.len() as u64);
        let outcome = self.inner.request(payload, deadline).await;
        match &outcome {
            Ok(reply) => self.sink.add(Metric::BytesReceived, reply.len() as u64),
            Err(_) => self.sink.add(Metric::RequestsFailed, 1),
        }
        outcome
    }

    async fn subscribe(
        &self,
        at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        let inner = self.inner.subscribe(at, topics, deadline).await?;
        Ok(Box::new(MeteredSubscriber {
            inner,
            sink: Arc::clone(&self.sink),
        }))
    }

    fn peer_certificate(&self) -> Option<[u8; 32]> {
        self.inner.peer_certificate()
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.inner.shutdown(deadline).await
    }
}

#[derive(Debug)]
struct MeteredSubscriber {
    inner: Box<dyn Subscriber>,
    sink: Arc<dyn MetricsSink>,
}

impl MeteredSubscriber {
    fn count(&self, deliveries: &[Delivery]) {
        let (mut messages, mut bytes) = (0, 0);
        for delivery in deliveries {
            if let Delivery::Message { payload, .. } = delivery {
                messages += 1;
                bytes += payload.len() as u64;
            }
        }
        if messages > 0 {
            self.sink.add(Metric::Delivered, messages);
            self.sink.add(Metric::BytesReceived, bytes);
        }
    }
}

#[async_trait]
impl Subscriber for MeteredSubscriber {
    async fn next(&mut self) -> Option<Delivery> {
        let delivery = self.inner.next().await;
        self.count(delivery.as_slice());
        delivery
    }

    async fn next_batch(&mut self, into: &mut Vec<Delivery>, most: usize) -> usize {
        let taken = self.inner.next_batch(into, most).await;
        self.count(&into[into.len().saturating_sub(taken)..]);
        taken
    }
}
