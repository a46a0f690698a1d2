//! The connecting side in the layer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::limits::{check_apart, check_topics};
use super::metrics::MeteredSubscriber;
use crate::transport::{
    Client, Clock, Context, Endpoint, Error, ErrorKind, Instant, Limits, Metric, MetricsSink,
    Result, Subscriber, TopicFilter, Transport,
};

/// A client that keeps to its limits and counts.
#[derive(Debug)]
pub(super) struct LayeredClient {
    inner: Arc<dyn Client>,
    /// A permit for each request that may be in flight.
    in_flight: Semaphore,
    bounds: Bounds,
}

/// The limits and the clock of a client, as far as the layer needs them.
#[derive(Debug)]
pub(super) struct Bounds {
    limits: Limits,
    clock: Clock,
    sink: Arc<dyn MetricsSink>,
    scheme: &'static str,
    publications_apart: bool,
}

impl LayeredClient {
    /// Returns what a client of `transport` keeps of its context.
    pub(super) fn bounds(transport: &dyn Transport, context: &Context) -> Bounds {
        Bounds {
            limits: context.limits.clone(),
            clock: context.clock,
            sink: Arc::clone(&context.metrics),
            scheme: transport.scheme(),
            publications_apart: transport.capabilities().publications_apart,
        }
    }

    pub(super) fn new(inner: Arc<dyn Client>, bounds: Bounds) -> Self {
        let most = bounds.limits.requests_in_flight;
        Self {
            inner,
            in_flight: Semaphore::new(most.min(Semaphore::MAX_PERMITS)),
            bounds,
        }
    }

    /// Waits for a permit, at most until `deadline`.
    async fn wait(&self, deadline: Instant) -> Result<SemaphorePermit<'_>> {
        let acquiring = self.in_flight.acquire();
        match self.bounds.clock.deadline(deadline, acquiring).await {
            Ok(permit) => permit.map_err(|_| Error::closed()),
            Err(_) => {
                let most = self.bounds.limits.requests_in_flight;
                Err(Error::new(
                    ErrorKind::Unreachable,
                    format!("{most} requests were in flight until the deadline"),
                ))
            }
        }
    }
}

#[async_trait]
impl Client for LayeredClient {
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        let Bounds { limits, sink, .. } = &self.bounds;
        let size = payload.len();
        sink.add(Metric::RequestsSent, 1);
        sink.add(Metric::BytesSent, size as u64);
        let outcome = if size > limits.max_message {
            Err(Error::too_large("a request", size, limits.max_message))
        } else {
            let permit = match self.in_flight.try_acquire() {
                Ok(permit) => Ok(permit),
                // Boxed: the usual case takes no timer, and no room for one.
                Err(_) => Box::pin(self.wait(deadline)).await,
            };
            match permit {
                Ok(_permit) => self.inner.request(payload, deadline).await,
                Err(error) => Err(error),
            }
        };
        match &outcome {
            Ok(reply) => sink.add(Metric::BytesReceived, reply.len() as u64),
            Err(_) => sink.add(Metric::RequestsFailed, 1),
        }
        outcome
    }

    async fn subscribe(
        &self,
        at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        let bounds = &self.bounds;
        check_apart(bounds.scheme, bounds.publications_apart, at.is_some())?;
        check_topics(&topics, bounds.limits.subscriptions_per_connection)?;
        let inner = self.inner.subscribe(at, topics, deadline).await?;
        let sink = Arc::clone(&bounds.sink);
        Ok(Box::new(MeteredSubscriber::new(inner, sink)))
    }

    fn peer_certificate(&self) -> Option<[u8; 32]> {
        self.inner.peer_certificate()
    }

    fn server_address(&self) -> Option<String> {
        self.inner.server_address()
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.in_flight.close();
        self.inner.shutdown(deadline).await
    }
}
