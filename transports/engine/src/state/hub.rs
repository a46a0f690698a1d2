//! The connections of one server, and who of them takes what.

use std::collections::HashMap;

use saline_protocol::transport::{Topic, TopicFilter};

use super::{EnqueueResult, SubscriptionIndex};
use crate::wire::{EncodedPublication, FrameLog, PublicationRun, Violation};

/// A publication with at most so many subscribers is not written into the log that connections share.
const FEW: usize = 4;

/// Publications that are gathered for all subscribers before they are handed to each of them.
const GATHERED: usize = super::BATCH;

/// The connections of one server by their numbers, and their subscriptions. `C` is the handle of a
/// connection.
#[derive(Debug)]
pub(crate) struct Hub<C> {
    members: HashMap<u64, Member<C>>,
    /// By connection and subscription.
    index: SubscriptionIndex<(u64, u64), C>,
    /// The number of the last publication.
    published: u64,
    log: FrameLog,
    gathered: Option<Gathered>,
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

/// Publications that follow one which was handed to each of its subscribers: they have the same subscribers, and each
/// of these has something to write, so that it will look for more.
#[derive(Debug)]
struct Gathered {
    topic: Topic,
    /// All of them, side by side in the log; `None` before the first.
    all: Option<PublicationRun>,
    each: Vec<PublicationRun>,
}

impl Gathered {
    fn new(topic: &Topic) -> Self {
        Self {
            topic: topic.clone(),
            all: None,
            each: Vec::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.each.len() >= GATHERED
    }

    /// Adds a publication. False when it does not stand behind the others in the log.
    fn add(&mut self, run: &PublicationRun) -> bool {
        let follows = match &mut self.all {
            Some(all) => all.extend(run),
            none => {
                *none = Some(run.clone());
                true
            }
        };
        if follows {
            self.each.push(run.clone());
        }
        follows
    }
}

/// The result of publications over all of their subscribers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Published {
    /// How many were lost, over all subscriptions.
    pub(crate) lost: u64,
    /// Writers should have a turn: a connection begins to fall behind, or many have something to write.
    pub(crate) is_behind: bool,
}

impl Published {
    fn note(&mut self, result: EnqueueResult) {
        match result {
            EnqueueResult::Queued | EnqueueResult::Refused => {}
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
            log: FrameLog::default(),
            gathered: None,
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
        self.gathered = None;
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

    /// Hands a publication to every connection that takes it, by `enqueue` with the connection, a number,
    /// the publication and the subscription: once for each subscription, perhaps oftener for one
    /// whose filters overlap. `None` once nothing is published any more.
    ///
    /// One that follows others of the same topic is only gathered: to be handed out by
    /// [`hand_out`](Self::hand_out), which has to be called before anything is written or changed here.
    pub(crate) fn publish(
        &mut self,
        topic: &Topic,
        mut publication: EncodedPublication,
        mut enqueue: impl FnMut(&C, u64, &EncodedPublication, u64) -> EnqueueResult,
    ) -> Option<Published> {
        if self.is_silent {
            return None;
        }
        if self.gather(topic, &mut publication) {
            return Some(Published::default());
        }
        let mut published = self.hand_out(&mut enqueue);
        self.published += 1;
        if self.index.subscribers(topic).nth(FEW).is_some() {
            publication.share(&mut self.log);
        }
        for ((_, subscription), handle) in self.index.subscribers(topic) {
            published.note(enqueue(handle, self.published, &publication, *subscription));
        }
        if let EncodedPublication::Shared(_) = publication {
            self.gathered = Some(Gathered::new(topic));
        }
        Some(published)
    }

    /// Gathers a publication, if it follows others of the same topic. Returns whether it does.
    fn gather(&mut self, topic: &Topic, publication: &mut EncodedPublication) -> bool {
        let Some(gathered) = &mut self.gathered else {
            return false;
        };
        if gathered.topic != *topic || gathered.is_full() {
            return false;
        }
        publication.share(&mut self.log);
        match publication {
            EncodedPublication::Shared(run) => gathered.add(run),
            EncodedPublication::Single(_) => false,
        }
    }

    /// Returns whether the next publication may be gathered.
    pub(crate) fn gathers(&self) -> bool {
        self.gathered.is_some()
    }

    /// Hands what was gathered to every connection that takes it, as [`publish`](Self::publish) does. The
    /// next publication is not gathered.
    pub(crate) fn hand_out(
        &mut self,
        mut enqueue: impl FnMut(&C, u64, &EncodedPublication, u64) -> EnqueueResult,
    ) -> Published {
        let mut published = Published::default();
        let Some(gathered) = self.gathered.take() else {
            return published;
        };
        // Nobody has come to write them.
        published.is_behind = gathered.is_full();
        let Some(all) = gathered.all else {
            return published;
        };
        let all = EncodedPublication::Shared(all);
        self.published += 1;
        // Those that have no room for all of them take what there is room for.
        let mut crowded = Vec::new();
        for subscriber in self.index.subscribers(&gathered.topic) {
            let ((_, subscription), handle) = subscriber;
            match enqueue(handle, self.published, &all, *subscription) {
                EnqueueResult::Refused => crowded.push(subscriber),
                result => published.note(result),
            }
        }
        if !crowded.is_empty() {
            for one in gathered.each {
                let one = EncodedPublication::Shared(one);
                self.published += 1;
                for ((_, subscription), handle) in &crowded {
                    published.note(enqueue(handle, self.published, &one, *subscription));
                }
            }
        }
        published
    }
}

#[cfg(test)]
mod tests;
