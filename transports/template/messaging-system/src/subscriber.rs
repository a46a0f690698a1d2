//! The subscriptions of a client.

use async_trait::async_trait;
use saline_engine::{DeliveryReceiver, delivery_queue};
use saline_protocol::transport::{Context, Delivery, Instant, Result, Subscriber, TopicFilter};

use crate::unwritten;

/// Subscribes, and returns when the server has confirmed.
pub(crate) async fn subscribe(
    context: &Context,
    _topics: Vec<TopicFilter>,
    _deadline: Instant,
) -> Result<Box<dyn Subscriber>> {
    // The queue is given: it is bounded in messages and bytes, counts losses, and wakes. Make the
    // subscriber before the first await, so that a dropped future withdraws it.
    let (_sender, receiver) = delivery_queue(&context.limits);
    let _subscriber = TemplateSubscriber { receiver };
    Err(unwritten(
        "Client::subscribe",
        "ask the server, wait for its confirmation until the deadline, and ask again on every \
         connection that comes after this one",
        "11. Subscriptions",
    ))
}

/// The end of a subscription that is read. Dropping it withdraws the subscription.
#[derive(Debug)]
struct TemplateSubscriber {
    receiver: DeliveryReceiver,
}

#[async_trait]
impl Subscriber for TemplateSubscriber {
    async fn next(&mut self) -> Option<Delivery> {
        self.receiver.next().await
    }

    async fn next_batch(&mut self, into: &mut Vec<Delivery>, most: usize) -> usize {
        self.receiver.next_batch(into, most).await
    }
}
