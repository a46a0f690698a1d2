//! The subscriptions of a client, over whichever connection stands.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use saline_protocol::transport::{Delivery, Lost, Topic, TopicFilter};

use super::SubscriptionIndex;
use crate::DeliverySender;

/// The subscriptions of one client. `W` is whatever waits for the first confirmation of one.
#[derive(Debug)]
pub(crate) struct ClientSubscriptions<W> {
    /// The most filters over all of them.
    most: usize,
    last: u64,
    all: BTreeMap<u64, Subscription<W>>,
    /// Filters over all of them.
    filters: usize,
    /// The subscriptions that are confirmed on the connection that stands.
    index: SubscriptionIndex<u64, Arc<DeliverySender>>,
    /// Announcements that the server has not got yet on that connection.
    unsaid: VecDeque<Unsaid>,
    /// Filters that may still be announced before the server has admitted that connection.
    announceable: usize,
    is_connected: bool,
    is_closed: bool,
}

#[derive(Debug)]
struct Subscription<W> {
    filters: Vec<TopicFilter>,
    queue: Arc<DeliverySender>,
    /// Whether it is confirmed on the connection that stands.
    is_confirmed: bool,
    /// The caller that waits for the first confirmation.
    waiting: Option<W>,
}

#[derive(Debug, PartialEq, Eq)]
enum Unsaid {
    Subscribe(u64),
    Unsubscribe(u64),
}

/// An announcement to the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Announcement<'a> {
    Subscribe(u64, &'a [TopicFilter]),
    Unsubscribe(u64),
}

/// The reason why a subscription is not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddError {
    /// The client is closed.
    Closed,
    /// There would be none or too many filters.
    TooMany,
}

impl<W> ClientSubscriptions<W> {
    /// Returns the subscriptions of a client that may have so many filters.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            last: 0,
            all: BTreeMap::new(),
            filters: 0,
            index: SubscriptionIndex::default(),
            unsaid: VecDeque::new(),
            announceable: usize::MAX,
            is_connected: false,
            is_closed: false,
        }
    }

    /// Adds a subscription and returns its number. Its deliveries go to `queue`; `waiting` comes back
    /// with its confirmation or refusal.
    pub(crate) fn add(
        &mut self,
        filters: Vec<TopicFilter>,
        queue: DeliverySender,
        waiting: W,
    ) -> Result<u64, AddError> {
        if self.is_closed {
            return Err(AddError::Closed);
        }
        if filters.is_empty() || self.filters + filters.len() > self.most {
            return Err(AddError::TooMany);
        }
        self.last += 1;
        let id = self.last;
        self.filters += filters.len();
        let subscription = Subscription {
            filters,
            queue: Arc::new(queue),
            is_confirmed: false,
            waiting: Some(waiting),
        };
        self.all.insert(id, subscription);
        if self.is_connected {
            self.unsaid.push_back(Unsaid::Subscribe(id));
        }
        Ok(id)
    }

    /// Ends a subscription that nobody reads any more.
    pub(crate) fn withdraw(&mut self, id: u64) {
        if self.remove(id).is_none() || !self.is_connected {
            return;
        }
        let said = self
            .unsaid
            .iter()
            .position(|unsaid| *unsaid == Unsaid::Subscribe(id));
        match said {
            Some(place) => drop(self.unsaid.remove(place)),
            None => self.unsaid.push_back(Unsaid::Unsubscribe(id)),
        }
    }

    fn remove(&mut self, id: u64) -> Option<Subscription<W>> {
        let gone = self.all.remove(&id)?;
        self.filters -= gone.filters.len();
        if gone.is_confirmed {
            self.index.remove(&gone.filters, id);
        }
        Some(gone)
    }

    /// A connection stands: every subscription is asked for on it, those that have more than so many
    /// filters together when it is admitted.
    pub(crate) fn connected(&mut self, before_admission: usize) {
        self.is_connected = true;
        self.announceable = before_admission;
        self.unsaid = self.all.keys().copied().map(Unsaid::Subscribe).collect();
    }

    /// The server has admitted the connection.
    pub(crate) fn admitted(&mut self) {
        self.announceable = usize::MAX;
    }

    /// The connection is lost.
    pub(crate) fn disconnected(&mut self) {
        self.is_connected = false;
        self.unsaid.clear();
        self.index = SubscriptionIndex::default();
        for subscription in self.all.values_mut() {
            if std::mem::take(&mut subscription.is_confirmed) {
                subscription.queue.push(Delivery::Disconnected);
            }
        }
    }

    /// Ends all of them for good. Whoever waits is dropped.
    pub(crate) fn close(&mut self) {
        *self = Self {
            is_closed: true,
            ..Self::new(self.most)
        };
    }

    /// Returns what the server has to be told next; `None` also while the next subscription has to
    /// wait for admission, and those behind it with it.
    pub(crate) fn next_announcement(&mut self) -> Option<Announcement<'_>> {
        loop {
            match *self.unsaid.front()? {
                Unsaid::Subscribe(id) if self.all.contains_key(&id) => {
                    let filters = &self.all[&id].filters;
                    if self.announceable != usize::MAX {
                        // What is withdrawn meanwhile gives nothing back: that costs a wait at most.
                        self.announceable = self.announceable.checked_sub(filters.len())?;
                    }
                    self.unsaid.pop_front();
                    return Some(Announcement::Subscribe(id, filters));
                }
                Unsaid::Subscribe(_) => drop(self.unsaid.pop_front()),
                Unsaid::Unsubscribe(id) => {
                    self.unsaid.pop_front();
                    return Some(Announcement::Unsubscribe(id));
                }
            }
        }
    }

    /// The server has confirmed a subscription: what comes from now on is for it. Returns whoever
    /// waits for that; one that stood before is told that it is connected again.
    pub(crate) fn confirmed(&mut self, id: u64) -> Option<W> {
        let subscription = self.all.get_mut(&id)?;
        if std::mem::replace(&mut subscription.is_confirmed, true) {
            return None;
        }
        self.index
            .insert(&subscription.filters, id, &subscription.queue);
        let waiting = subscription.waiting.take();
        if waiting.is_none() {
            subscription.queue.push(Delivery::Connected);
        }
        waiting
    }

    /// The server does not take a subscription, because there are too many: it ends. Returns whoever
    /// waits for its first confirmation. The subscriber of one that stood before reads what is queued
    /// and then its end; the others are not concerned.
    pub(crate) fn refused(&mut self, id: u64) -> Option<W> {
        self.remove(id)?.waiting
    }

    /// Hands publications to every subscriber that takes them, once each. Returns how many messages
    /// were dropped.
    pub(crate) fn deliver(&self, arrived: &mut Vec<(Topic, Bytes)>) -> u64 {
        let mut dropped = 0;
        // Most often one topic follows itself and shares its text, so those of one text go together.
        let mut rest = arrived.drain(..);
        while let Some((topic, _)) = rest.as_slice().first() {
            let these = rest.as_slice();
            let is_other = |(other, _): &(Topic, _)| !std::ptr::eq(other.as_str(), topic.as_str());
            let others = these.iter().position(is_other);
            let count = others.unwrap_or(these.len());
            let mut subscribers: Vec<(u64, &DeliverySender)> = Vec::new();
            for (id, queue) in self.index.subscribers(topic) {
                if !subscribers.iter().any(|(other, _)| other == id) {
                    subscribers.push((*id, queue));
                }
            }
            let message = |(topic, payload)| Delivery::Message { topic, payload };
            let last = subscribers.pop();
            for (_, subscriber) in subscribers {
                dropped += subscriber.push_all(these[..count].iter().cloned().map(message));
            }
            // Usually the only one, and then nothing is copied.
            let mut these = rest.by_ref().take(count);
            dropped += last.map_or(0, |(_, subscriber)| {
                subscriber.push_all(these.by_ref().map(message))
            });
            // What nobody takes, or whoever took it has just gone.
            these.for_each(drop);
        }
        dropped
    }

    /// The server dropped publications that a subscriber should have had; it has counted them.
    pub(crate) fn lagged(&mut self, id: u64, count: u64) {
        if let Some(subscription) = self.all.get(&id) {
            let lost = Delivery::Lagged(Lost::Messages(count));
            subscription.queue.push(lost);
        }
    }
}

#[cfg(test)]
mod tests;
