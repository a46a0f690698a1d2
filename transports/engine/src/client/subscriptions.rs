//! Subscribing: what the readers of subscriptions and the connection tasks of one client share.

use std::sync::{Arc, MutexGuard, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{
    Delivery, Error, ErrorKind, Instant, Metric, Result, Subscriber, Topic, TopicFilter,
};
use tokio::sync::oneshot;

use super::ClientCore;
use crate::state::{AddError, Announcement, ClientSubscriptions};
use crate::wire::frame::subscribe;
use crate::wire::{BOUNDARY, FrameKind, SendBuffer};
use crate::{DeliveryReceiver, delivery_queue, lock};

/// Hears whether a subscription was confirmed for the first time.
pub(super) type Confirmation = oneshot::Sender<Result<()>>;

impl ClientCore {
    pub(super) fn subscriptions(&self) -> MutexGuard<'_, ClientSubscriptions<Confirmation>> {
        lock(&self.subscriptions)
    }

    /// Subscribes, and waits until the server has confirmed.
    ///
    /// # Cancel safety
    /// When the future is dropped, the subscription is withdrawn.
    pub(super) async fn subscribe(
        self: &Arc<Self>,
        filters: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        let context = &self.lifetime.context;
        let (queue, receiver) = delivery_queue(&context.limits);
        let (waiting, confirmed) = oneshot::channel();
        let added = self.subscriptions().add(filters, queue, waiting);
        let id = added.map_err(|error| match error {
            AddError::Closed => Error::closed(),
            AddError::TooMany => self.too_many(),
        })?;
        // Dropping it withdraws what was not confirmed.
        let subscriber = Box::new(EngineSubscriber {
            id,
            receiver,
            core: Arc::downgrade(self),
        });
        self.requests.wake.notify_one();
        match context.clock.deadline(deadline, confirmed).await {
            Ok(Ok(confirmed)) => confirmed.map(|()| subscriber as Box<dyn Subscriber>),
            Ok(Err(_)) => Err(Error::closed()),
            Err(_) => Err(Error::new(
                ErrorKind::Unreachable,
                "the subscription was not confirmed before the deadline",
            )),
        }
    }

    fn too_many(&self) -> Error {
        let most = self.lifetime.context.limits.subscriptions_per_connection;
        Error::new(
            ErrorKind::Config,
            format!("a connection holds one to {most} subscriptions"),
        )
    }

    /// Puts what the server has to be told about subscriptions into `buffer`, up to the boundary of a
    /// write.
    pub(super) fn announce_subscriptions(&self, buffer: &mut SendBuffer) {
        let mut subscriptions = self.subscriptions();
        while buffer.len() < BOUNDARY
            && let Some(announcement) = subscriptions.next_announcement()
        {
            match announcement {
                Announcement::Subscribe(id, filters) => buffer.bytes(&subscribe(id, filters)),
                Announcement::Unsubscribe(id) => {
                    buffer.frame(FrameKind::Unsubscribe, &id.to_le_bytes(), &Bytes::new());
                }
            }
        }
    }

    /// The server has confirmed a subscription.
    pub(super) fn confirmed(&self, id: u64) {
        let waiting = self.subscriptions().confirmed(id);
        if let Some(waiting) = waiting {
            // One whose caller has gone is withdrawn by its subscriber.
            let _ = waiting.send(Ok(()));
        }
    }

    /// The server does not take a subscription.
    pub(super) fn refused(&self, id: u64) {
        let waiting = self.subscriptions().refused(id);
        match waiting {
            Some(waiting) => drop(waiting.send(Err(self.too_many()))),
            None => tracing::warn!(
                "the server takes fewer subscriptions than before: one has ended that stood"
            ),
        }
    }

    /// Hands publications to their subscribers.
    pub(super) fn deliver(&self, arrived: &mut Vec<(Topic, Bytes)>) {
        if arrived.is_empty() {
            return;
        }
        let dropped = self.subscriptions().deliver(arrived);
        if dropped != 0 {
            let metrics = &self.lifetime.context.metrics;
            metrics.add(Metric::Lost, dropped);
        }
    }
}

/// The end of a subscription that is read.
#[derive(Debug)]
struct EngineSubscriber {
    id: u64,
    receiver: DeliveryReceiver,
    core: Weak<ClientCore>,
}

#[async_trait]
impl Subscriber for EngineSubscriber {
    async fn next(&mut self) -> Option<Delivery> {
        self.receiver.next().await
    }

    async fn next_batch(&mut self, into: &mut Vec<Delivery>, most: usize) -> usize {
        self.receiver.next_batch(into, most).await
    }
}

impl Drop for EngineSubscriber {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            core.subscriptions().withdraw(self.id);
            core.requests.wake.notify_one();
        }
    }
}
