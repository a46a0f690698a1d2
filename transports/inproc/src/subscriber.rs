//! A subscription, and the end of it that is read.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use saline_engine::{DeliveryReceiver, DeliverySender};
use saline_protocol::transport::{Delivery, Metric, MetricsSink, Subscriber, Topic, TopicFilter};

use crate::client::ClientCore;

/// What a client asked for, and the queue that it reads. The server writes into that queue itself.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// Which topics; a message that several filters take is delivered once.
    pub(crate) filters: Vec<TopicFilter>,
    /// Where deliveries go.
    pub(crate) queue: DeliverySender,
    /// Where losses are counted: the client's, whose queue it is.
    pub(crate) metrics: Arc<dyn MetricsSink>,
}

impl Subscription {
    /// Whether it takes `topic`.
    pub(crate) fn takes(&self, topic: &Topic) -> bool {
        self.filters.iter().any(|filter| filter.matches(topic))
    }

    /// Queues `delivery` and counts what did not fit.
    pub(crate) fn push(&self, delivery: Delivery) {
        let dropped = self.queue.push(delivery);
        if dropped > 0 {
            self.metrics.add(Metric::Lost, dropped);
        }
    }
}

/// The end that is read. It ends when the client drops the [`Subscription`].
#[derive(Debug)]
pub(crate) struct InProcSubscriber {
    pub(crate) receiver: DeliveryReceiver,
    pub(crate) subscription: Weak<Subscription>,
    pub(crate) client: Weak<ClientCore>,
}

#[async_trait]
impl Subscriber for InProcSubscriber {
    async fn next(&mut self) -> Option<Delivery> {
        self.receiver.next().await
    }

    async fn next_batch(&mut self, into: &mut Vec<Delivery>, most: usize) -> usize {
        self.receiver.next_batch(into, most).await
    }
}

impl Drop for InProcSubscriber {
    fn drop(&mut self) {
        if let (Some(client), Some(subscription)) =
            (self.client.upgrade(), self.subscription.upgrade())
        {
            client.withdraw(&subscription);
        }
    }
}
