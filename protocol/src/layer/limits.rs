//! Checks sizes, bounds the requests in flight, and refuses what a backend declares it cannot do.
//!
//! What it does not do, because only the backend can: look at the size of what comes in, and bound what
//! waits on the serving side.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::transport::{
    Address, Capabilities, Client, Clock, Context, Endpoint, Error, ErrorKind, Instant, Limits,
    OptionSpec, Publisher, Result, ServeAt, Server, Subscriber, Topic, TopicFilter, Transport,
};

/// A transport that keeps to its [`Limits`] and [`Capabilities`].
///
/// | refused | with |
/// |---|---|
/// | an endpoint of another scheme, without an address, or a path without `local_endpoints` | `Config` |
/// | TLS on a network endpoint of a backend that is not `encrypted` | `Config` |
/// | a `max_message` above what the backend can carry | `Config` |
/// | a place for publications where there is none, or none where it is needed | `Config` |
/// | no topic, or more than `subscriptions_per_connection` in one `subscribe` | `Config` |
/// | a request or publication above `max_message` | `TooLarge` |
///
/// Replies are checked by [`Reply::send`](crate::transport::Reply::send).
#[derive(Debug)]
pub struct Limited {
    inner: Arc<dyn Transport>,
}

impl Limited {
    /// Puts `inner` into this layer.
    pub fn new(inner: Arc<dyn Transport>) -> Self {
        Self { inner }
    }

    fn check(&self, endpoint: &Endpoint, context: &Context) -> Result<()> {
        let limits = &context.limits;
        let capabilities = self.inner.capabilities();
        let scheme = self.inner.scheme();
        let refuse = |why: String| Err(Error::new(ErrorKind::Config, why));
        if endpoint.scheme != scheme {
            return refuse(format!(
                "{endpoint} is not an endpoint of transport {scheme}"
            ));
        }
        if limits.max_message > capabilities.max_message {
            return refuse(format!(
                "transport {scheme} carries messages of up to {} bytes, max_message_size is {}",
                capabilities.max_message, limits.max_message
            ));
        }
        match &endpoint.address {
            Address::Local(path) if !capabilities.local_endpoints => refuse(format!(
                "transport {scheme} has no local endpoints, so {} cannot be one",
                path.display()
            )),
            Address::Network { addresses, .. } if addresses.is_empty() => {
                refuse(format!("an endpoint of {scheme} without an address"))
            }
            Address::Network { .. } if context.tls.is_some() && !capabilities.encrypted => {
                refuse(format!(
                    "transport {scheme} has no TLS, and ssl asks for it: remove ssl (sessions are \
                     encrypted above every transport) or take another transport"
                ))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Transport for Limited {
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
        self.check(&at.requests, &context)?;
        match (
            &at.publications,
            self.inner.capabilities().publications_apart,
        ) {
            (Some(publications), true) => self.check(publications, &context)?,
            (None, false) => {}
            (given, _) => return Err(apart_mismatch(self.inner.scheme(), given.is_some())),
        }
        let max_message = context.limits.max_message;
        let mut server = self.inner.serve(at, context).await?;
        server.publisher = Arc::new(LimitedPublisher {
            inner: server.publisher,
            max_message,
        });
        Ok(server)
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        self.check(endpoint, &context)?;
        let (limits, clock) = (context.limits.clone(), context.clock);
        let inner = self.inner.connect(endpoint, context).await?;
        Ok(Arc::new(LimitedClient {
            inner,
            permits: Semaphore::new(limits.requests_in_flight),
            limits,
            clock,
            scheme: self.inner.scheme(),
            publications_apart: self.inner.capabilities().publications_apart,
        }))
    }
}

fn apart_mismatch(scheme: &str, given: bool) -> Error {
    let why = if given {
        format!("transport {scheme} publishes where requests go, so no other place can be given")
    } else {
        format!("transport {scheme} publishes on an endpoint of its own, which must be given")
    };
    Error::new(ErrorKind::Config, why)
}

#[derive(Debug)]
struct LimitedClient {
    inner: Arc<dyn Client>,
    permits: Semaphore,
    limits: Limits,
    clock: Clock,
    scheme: &'static str,
    publications_apart: bool,
}

#[async_trait]
impl Client for LimitedClient {
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        if payload.len() > self.limits.max_message {
            return Err(Error::too_large(
                "a request",
                payload.len(),
                self.limits.max_message,
            ));
        }
        // The usual case takes no timer: there is a permit at once.
        let _permit = match self.permits.try_acquire() {
            Ok(permit) => permit,
            Err(_) => {
                let acquired = self.clock.deadline(deadline, self.permits.acquire()).await;
                match acquired {
                    Ok(Ok(permit)) => permit,
                    Ok(Err(_)) => return Err(Error::closed()),
                    Err(_) => {
                        return Err(Error::new(
                            ErrorKind::Unreachable,
                            format!(
                                "{} requests were in flight until the deadline",
                                self.limits.requests_in_flight
                            ),
                        ));
                    }
                }
            }
        };
        self.inner.request(payload, deadline).await
    }

    async fn subscribe(
        &self,
        at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        if at.is_some() != self.publications_apart {
            return Err(apart_mismatch(self.scheme, at.is_some()));
        }
        let most = self.limits.subscriptions_per_connection;
        if topics.is_empty() || topics.len() > most {
            return Err(Error::new(
                ErrorKind::Config,
                format!("{} topics: one to {most} can be asked for", topics.len()),
            ));
        }
        self.inner.subscribe(at, topics, deadline).await
    }

    fn peer_certificate(&self) -> Option<[u8; 32]> {
        self.inner.peer_certificate()
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.permits.close();
        self.inner.shutdown(deadline).await
    }
}

#[derive(Debug)]
struct LimitedPublisher {
    inner: Arc<dyn Publisher>,
    max_message: usize,
}

#[async_trait]
impl Publisher for LimitedPublisher {
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        if payload.len() > self.max_message {
            return Err(Error::too_large(
                "a publication",
                payload.len(),
                self.max_message,
            ));
        }
        self.inner.publish(topic, payload).await
    }

    fn subscriptions(&self, topic: &Topic) -> usize {
        self.inner.subscriptions(topic)
    }
}
