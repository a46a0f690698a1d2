//! The counts of requests and publications that are handed up; what is sent is counted by the layer's client
//! and publisher. Links, losses and refused peers are counted by the backends, which alone see them.

use std::sync::Arc;

use async_trait::async_trait;

use crate::transport::{Delivery, Metric, MetricsSink, Request, Requests, Subscriber};

/// Counts the requests that are handed up.
#[derive(Debug)]
pub(super) struct MeteredRequests {
    inner: Box<dyn Requests>,
    sink: Arc<dyn MetricsSink>,
}

impl MeteredRequests {
    pub(super) fn new(inner: Box<dyn Requests>, sink: Arc<dyn MetricsSink>) -> Self {
        Self { inner, sink }
    }

    fn count(&self, requests: &[Request]) {
        let size = |request: &Request| request.payload.len() as u64;
        let bytes = requests.iter().map(size).sum();
        self.sink
            .add(Metric::RequestsReceived, requests.len() as u64);
        self.sink.add(Metric::BytesReceived, bytes);
    }
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

/// Counts the publications that are handed up.
#[derive(Debug)]
pub(super) struct MeteredSubscriber {
    inner: Box<dyn Subscriber>,
    sink: Arc<dyn MetricsSink>,
}

impl MeteredSubscriber {
    pub(super) fn new(inner: Box<dyn Subscriber>, sink: Arc<dyn MetricsSink>) -> Self {
        Self { inner, sink }
    }

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
