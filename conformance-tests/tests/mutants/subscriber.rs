//! What can be wrong with subscriptions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use saline_protocol::transport::{
    Client, Delivery, Endpoint, Instant, Lost, Subscriber, Topic, TopicFilter,
};

use crate::fault::Fault;

/// What is asked for instead of `topics`.
pub fn spoil_filters(fault: Fault, topics: &[TopicFilter]) -> Vec<TopicFilter> {
    let spoil = |filter: &TopicFilter| match (fault, filter) {
        (Fault::ExactIsPrefix, TopicFilter::Exact(topic)) => TopicFilter::Prefix(topic.clone()),
        (Fault::PrefixByBytes, TopicFilter::Prefix(topic)) => {
            let first = topic.segments().next().unwrap_or_default();
            TopicFilter::Prefix(Topic::parse(first).unwrap())
        }
        (_, filter) => filter.clone(),
    };
    topics.iter().map(spoil).collect()
}

/// `inner` with `fault`; `topics` is what was asked for, `turn` its number and the last.
pub fn spoil(
    inner: Box<dyn Subscriber>,
    fault: Fault,
    topics: Vec<TopicFilter>,
    turn: (u64, Arc<AtomicU64>),
) -> Box<dyn Subscriber> {
    Box::new(WrongSubscriber {
        inner: Some(inner),
        fault,
        topics,
        turn,
        reconnected: false,
        next: VecDeque::new(),
        untold: None,
    })
}

#[derive(Debug)]
struct WrongSubscriber {
    /// Always there, until it is dropped.
    inner: Option<Box<dyn Subscriber>>,
    fault: Fault,
    topics: Vec<TopicFilter>,
    /// Its own number, and the last one of its client.
    turn: (u64, Arc<AtomicU64>),
    reconnected: bool,
    next: VecDeque<Delivery>,
    untold: Option<Delivery>,
}

impl WrongSubscriber {
    /// What becomes of `delivery`: nothing, or itself, or more in `next`.
    fn spoil(&mut self, delivery: Delivery) -> Option<Delivery> {
        let is_link = matches!(delivery, Delivery::Connected | Delivery::Disconnected);
        self.reconnected |= delivery == Delivery::Connected;
        match (self.fault, &delivery) {
            (Fault::ForgetSubscriptions, Delivery::Message { .. }) if self.reconnected => None,
            (Fault::LastSubscriberOnly, Delivery::Message { .. })
                if self.turn.0 != self.turn.1.load(Ordering::Relaxed) =>
            {
                None
            }
            (Fault::SwallowLagged, Delivery::Lagged(_)) => None,
            (Fault::LieAboutLoss, Delivery::Lagged(Lost::Messages(n))) => {
                Some(Delivery::Lagged(Lost::Messages(n - 1)))
            }
            (Fault::TellLossLate, Delivery::Lagged(_)) => {
                self.untold = Some(delivery);
                None
            }
            (Fault::TellLossLate, _) if self.untold.is_some() => {
                self.next.push_back(delivery);
                self.untold.take()
            }
            (Fault::DoubleEvents, _) if is_link => {
                self.next.push_back(delivery.clone());
                Some(delivery)
            }
            (Fault::SwallowEvents, _) if is_link => None,
            (Fault::PrefixByBytes, Delivery::Message { topic, .. }) => {
                let taken = self.topics.iter().any(|filter| match filter {
                    TopicFilter::Prefix(prefix) => topic.as_str().starts_with(prefix.as_str()),
                    exact => exact.matches(topic),
                });
                taken.then_some(delivery)
            }
            (Fault::DeliverPerFilter, Delivery::Message { topic, .. }) => {
                let times = self
                    .topics
                    .iter()
                    .filter(|filter| filter.matches(topic))
                    .count();
                self.next
                    .extend(std::iter::repeat_n(delivery.clone(), times - 1));
                Some(delivery)
            }
            _ => Some(delivery),
        }
    }
}

#[async_trait]
impl Subscriber for WrongSubscriber {
    async fn next(&mut self) -> Option<Delivery> {
        loop {
            if let Some(delivery) = self.next.pop_front() {
                return Some(delivery);
            }
            let Some(delivery) = self.inner.as_mut()?.next().await else {
                if self.fault == Fault::NeverEnd {
                    std::future::pending::<()>().await;
                }
                return None;
            };
            if self.fault == Fault::LoseDelivery {
                tokio::task::yield_now().await;
            }
            if let Some(delivery) = self.spoil(delivery) {
                return Some(delivery);
            }
        }
    }

    async fn next_batch(&mut self, into: &mut Vec<Delivery>, most: usize) -> usize {
        if self.fault != Fault::PassOver {
            let delivery = self.next().await;
            let taken = usize::from(delivery.is_some());
            into.extend(delivery);
            return taken;
        }
        let Some(inner) = self.inner.as_mut() else {
            return 0;
        };
        let taken = inner.next_batch(into, most).await;
        if taken > 1 {
            drop(into.pop());
        }
        taken - usize::from(taken > 1)
    }
}

impl Drop for WrongSubscriber {
    fn drop(&mut self) {
        if self.fault == Fault::NeverWithdraw {
            std::mem::forget(self.inner.take());
        }
    }
}

/// A subscription that is made when it is first read.
#[derive(Debug)]
pub struct Lazy {
    client: Arc<dyn Client>,
    at: Option<Endpoint>,
    topics: Vec<TopicFilter>,
    deadline: Instant,
    inner: Option<Box<dyn Subscriber>>,
}

impl Lazy {
    /// What `subscribe` would have been called with.
    pub fn new(
        client: Arc<dyn Client>,
        at: Option<Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Self {
        Self {
            client,
            at,
            topics,
            deadline,
            inner: None,
        }
    }
}

#[async_trait]
impl Subscriber for Lazy {
    async fn next(&mut self) -> Option<Delivery> {
        if self.inner.is_none() {
            let topics = self.topics.clone();
            let subscribed = self
                .client
                .subscribe(self.at.as_ref(), topics, self.deadline);
            self.inner = subscribed.await.ok();
        }
        self.inner.as_mut()?.next().await
    }
}
