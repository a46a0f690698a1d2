//! The connections of one server, and who of them takes what.

use std::collections::HashMap;

use saline_protocol::transport::{Topic, TopicFilter};

use super::{EnqueueResult, SubscriptionIndex};
use crate::wire::Violation;

/// The connections of one server by their numbers, and their subscriptions. `C` is the handle of a
/// connection.
#[derive(Debug)]
pub(crate) struct Hub<C> {
    members: HashMap<u64, Member<C>>,
    /// By connection and subscription.
    index: SubscriptionIndex<(u64, u64), C>,
    /// The number of the last publication.
    published: u64,
    /// Nothing is published any more.
    is_silent: bool,
    /// Nobody is connected any more, nor will be.
    is_closed: bool,
}

#[derive(Debug)]
struct Member<C> {
    handle: C,
    subscriptions: HashMap<u64, Vec<TopicFilter>>,
    filters: usize,
}

/// The result of a publication over all of its subscribers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Published {
    /// How many were lost, over all subscriptions.
    pub(crate) lost: u64,
    /// A connection begins to fall behind: its writer should have a turn.
    pub(crate) is_behind: bool,
}

impl Published {
    fn note(&mut self, result: EnqueueResult) {
        match result {
            EnqueueResult::Queued => {}
            EnqueueResult::HalfFull => self.is_behind = true,
            EnqueueResult::Dropped => self.lost += 1,
        }
    }
}

impl<C> Default for Hub<C> {
    fn default() -> Self {
        Self {
            members: HashMap::new(),
            index: SubscriptionIndex::default(),
            published: 0,
            is_silent: false,
            is_closed: false,
        }
    }
}

impl<C: Clone> Hub<C> {
    /// Adds a connection, unless there are `most` already.
    pub(crate) fn add(&mut self, connection: u64, handle: C, most: usize) -> bool {
        if self.is_closed || self.members.len() >= most {
            return false;
        }
        let member = Member {
            handle,
            subscriptions: HashMap::new(),
            filters: 0,
        };
        self.members.insert(connection, member);
        true
    }

    /// Returns the handle of a connection, if it is here.
    pub(crate) fn get(&self, connection: u64) -> Option<&C> {
        self.members.get(&connection).map(|member| &member.handle)
    }

    /// Returns whether nobody is connected.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Removes a connection with its subscriptions, and returns its handle.
    pub(crate) fn remove(&mut self, connection: u64) -> Option<C> {
        let member = self.members.remove(&connection)?;
        for (subscription, filters) in &member.subscriptions {
            self.index.remove(filters, (connection, *subscription));
        }
        Some(member.handle)
    }

    /// Publishes no more.
    pub(crate) fn silence(&mut self) {
        self.is_silent = true;
    }

    /// Removes every connection for good, and returns their handles.
    pub(crate) fn close(&mut self) -> Vec<C> {
        self.is_closed = true;
        self.is_silent = true;
        self.index = SubscriptionIndex::default();
        let members = std::mem::take(&mut self.members);
        members.into_values().map(|member| member.handle).collect()
    }

    /// Adds a subscription. Returns whether it was granted: it is not when the connection would have
    /// more than `most` filters. `None` for a connection that is not here.
    ///
    /// # Errors
    /// When the number of the subscription is in use.
    pub(crate) fn subscribe(
        &mut self,
        connection: u64,
        id: u64,
        filters: Vec<TopicFilter>,
        most: usize,
    ) -> Result<Option<bool>, Violation> {
        let Some(member) = self.members.get_mut(&connection) else {
            return Ok(None);
        };
        if member.subscriptions.contains_key(&id) {
            return Err(Violation("a subscription whose number is in use"));
        }
        if member.filters + filters.len() > most {
            return Ok(Some(false));
        }
        self.index
            .insert(&filters, (connection, id), &member.handle);
        member.filters += filters.len();
        member.subscriptions.insert(id, filters);
        Ok(Some(true))
    }

    /// Ends a subscription.
    pub(crate) fn unsubscribe(&mut self, connection: u64, id: u64) {
        if let Some(member) = self.members.get_mut(&connection)
            && let Some(filters) = member.subscriptions.remove(&id)
        {
            member.filters -= filters.len();
            self.index.remove(&filters, (connection, id));
        }
    }

    /// Returns how many subscriptions take `topic`.
    pub(crate) fn subscriptions(&self, topic: &Topic) -> usize {
        self.index.count(topic)
    }

    /// Has a publication queued for every connection that takes it, by `enqueue` with the connection, the
    /// publication's number and the subscription: once for each subscription, perhaps oftener for one
    /// whose filters overlap. `None` once nothing is published any more.
    pub(crate) fn publish(
        &mut self,
        topic: &Topic,
        mut enqueue: impl FnMut(&C, u64, u64) -> EnqueueResult,
    ) -> Option<Published> {
        if self.is_silent {
            return None;
        }
        let mut published = Published::default();
        self.published += 1;
        for ((_, subscription), handle) in self.index.subscribers(topic) {
            published.note(enqueue(handle, self.published, *subscription));
        }
        Some(published)
    }
}

#[cfg(test)]
mod tests;
