//! What can be wrong with subscriptions.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

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
    twins: Arc<Twins>,
) -> Box<dyn Subscriber> {
    let since = twins.gone.lock().unwrap().len();
    let last = twins.last.lock().unwrap().take();
    Box::new(WrongSubscriber {
        losses: twins.losses.load(Ordering::Relaxed),
        since,
        twins,
        inner: Some(inner),
        fault,
        topics,
        turn,
        reconnected: false,
        messages: 0,
        next: last.into_iter().collect(),
        untold: None,
    })
}

/// What the subscribers of one client know of each other.
#[derive(Debug, Default)]
pub struct Twins {
    losses: AtomicU64,
    /// The message that one of them got last, where that matters.
    last: Mutex<Option<Delivery>>,
    /// The filters of those that have gone.
    gone: Mutex<Vec<Vec<TopicFilter>>>,
}

#[derive(Debug)]
struct WrongSubscriber {
    twins: Arc<Twins>,
    /// Losses of all that it knows of.
    losses: u64,
    /// How many had gone when it came.
    since: usize,
    /// Messages since the link came back.
    messages: u64,
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
        self.messages += 1;
        if is_link {
            self.messages = 0;
        }
        match (self.fault, &delivery) {
            (Fault::ForgetSubscriptions, Delivery::Message { .. }) if self.reconnected => None,
            (Fault::LastSubscriberOnly, Delivery::Message { .. })
                if self.turn.0 != self.turn.1.load(Ordering::Relaxed) =>
            {
                None
            }
            (Fault::SwallowLagged, Delivery::Lagged(_)) => None,
            (Fault::DoubleFifth, Delivery::Message { .. })
                if self.reconnected && self.messages == 5 =>
            {
                self.next.push_back(delivery.clone());
                Some(delivery)
            }
            (Fault::TakeTwin, Delivery::Message { .. })
                if self.twins.gone.lock().unwrap()[self.since..].contains(&self.topics) =>
            {
                None
            }
            (Fault::TellLossAfter, Delivery::Lagged(_)) => {
                self.untold = Some(delivery);
                None
            }
            (Fault::TellLossAfter, Delivery::Message { .. }) if self.untold.is_some() => {
                self.next.extend(self.untold.take());
                Some(delivery)
            }
            (Fault::TellLossBefore, Delivery::Message { .. }) => self.untold.replace(delivery),
            (Fault::TellLossBefore, Delivery::Lagged(_)) => {
                self.next.extend(self.untold.take());
                Some(delivery)
            }
            (Fault::LossToFirst, Delivery::Lagged(_)) if self.turn.0 > 1 => None,
            (Fault::LastToNewcomer, Delivery::Message { .. }) => {
                *self.twins.last.lock().unwrap() = Some(delivery.clone());
                Some(delivery)
            }
            (Fault::LossToAll, Delivery::Lagged(_)) => {
                self.losses = self.twins.losses.fetch_add(1, Ordering::Relaxed) + 1;
                Some(delivery)
            }
            (Fault::LossToAll, _) => {
                let losses = self.twins.losses.load(Ordering::Relaxed);
                if std::mem::replace(&mut self.losses, losses) != losses {
                    self.next.push_back(Delivery::Lagged(Lost::Messages(1)));
                }
                Some(delivery)
            }
            (Fault::MiscountLarge, Delivery::Lagged(Lost::Messages(n @ 51..))) => {
                Some(Delivery::Lagged(Lost::Messages(n - 1)))
            }
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
            (Fault::LeakReconnects, Delivery::Connected) => {
                std::mem::forget(std::hint::black_box(vec![1_u8; 200]));
                Some(delivery)
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
        self.twins.gone.lock().unwrap().push(self.topics.clone());
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
