//! The connecting side: requests and subscriptions over one link, and the task that keeps it up.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_engine::Lifetime;
use saline_protocol::transport::{
    Client, Context, Endpoint, Instant, Result, Subscriber, TopicFilter,
};
use tokio_util::sync::DropGuard;

use crate::frame::Frame;
use crate::link::Link;
use crate::{subscriber, unwritten};

/// A client of one server. Dropping it without a shutdown ends it as well.
#[derive(Debug)]
pub(crate) struct TemplateClient {
    pub(crate) lifetime: Arc<Lifetime>,
    pub(crate) _alive: DropGuard,
}

/// Connects, and keeps connected.
pub(crate) async fn connect(endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
    let until = context.clock.after(context.limits.connect_timeout);
    let link = Link::dial(endpoint, &context, until).await?;
    let lifetime = Lifetime::new(context, Duration::ZERO);
    lifetime.spawn(keep(link));
    Ok(Arc::new(TemplateClient {
        _alive: lifetime.cut.clone().drop_guard(),
        lifetime,
    }))
}

/// The client's task. Write here what makes a client: send what is queued, take what comes, ping,
/// notice a link that broke or is silent, tell whom it concerns, and dial again as the context's
/// backoff says (sections "6. Connecting" and "7. Requests").
async fn keep(mut link: Link) {
    let _ = link.send(&Frame::Ping).await;
}

#[async_trait]
impl Client for TemplateClient {
    async fn request(&self, _payload: Bytes, _deadline: Instant) -> Result<Bytes> {
        Err(unwritten(
            "Client::request",
            "queue it under a number that is never used again, and wait until the deadline for \
             exactly one outcome",
            "7. Requests",
        ))
    }

    async fn subscribe(
        &self,
        _at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        subscriber::subscribe(&self.lifetime.context, topics, deadline).await
    }

    async fn shutdown(&self, _deadline: Duration) -> Result<()> {
        Err(unwritten(
            "Client::shutdown",
            "end the requests with Closed and the subscribers with None, and then the lifetime, which \
             joins every task",
            "10. The end",
        ))
    }
}
