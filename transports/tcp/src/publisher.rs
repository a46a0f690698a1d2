//! Who is connected and who takes what; publishing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use saline_engine::FrameLog;
use saline_protocol::transport::{
    Error, Metric, MetricsSink, Publisher, Result, Topic, TopicFilter,
};
use tokio_util::sync::DropGuard;

use crate::connection::{Connection, Taken};
use crate::frame::{Publication, Violation};
use crate::interest::Interest;
use crate::lock;
use crate::log::Logged;

/// What has at most so many takers is not written into the log.
const FEW: usize = 4;

/// Publishes for one server.
#[derive(Debug)]
pub(crate) struct TcpPublisher {
    pub(crate) hub: Arc<Hub>,
    pub(crate) _alive: Arc<DropGuard>,
}

#[async_trait]
impl Publisher for TcpPublisher {
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        if self.hub.publish(topic, payload)? {
            // Some queue is half full: its writer has a turn before it overflows, even if there is
            // one thread for all.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn subscriptions(&self, topic: &Topic) -> usize {
        let state = self.hub.state();
        let takers = state.interest.takers(topic);
        let distinct: HashSet<_> = takers
            .map(|taker| (taker.connection.peer.connection, taker.subscription))
            .collect();
        distinct.len()
    }
}

/// Every connection of one server, and what its client subscribed to. Where both are held, the hub is
/// locked before a connection's outbox.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<State>,
    metrics: Arc<dyn MetricsSink>,
}

#[derive(Debug, Default)]
struct State {
    members: HashMap<u64, Member>,
    interest: Interest<Taker>,
    /// The number of the last publication.
    published: u64,
    log: FrameLog,
    /// Nothing is published any more.
    silent: bool,
    /// Nobody is connected any more, nor will be.
    closed: bool,
}

#[derive(Debug)]
struct Member {
    connection: Arc<Connection>,
    subscriptions: HashMap<u64, Vec<TopicFilter>>,
    filters: usize,
}

#[derive(Debug)]
struct Taker {
    connection: Arc<Connection>,
    subscription: u64,
}

impl Hub {
    pub(crate) fn new(metrics: Arc<dyn MetricsSink>) -> Self {
        Self {
            state: Mutex::default(),
            metrics,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Adds a connection, unless there are `most` already.
    pub(crate) fn admit(&self, connection: &Arc<Connection>, most: usize) -> bool {
        let mut state = self.state();
        if state.closed || state.members.len() >= most {
            return false;
        }
        let member = Member {
            connection: Arc::clone(connection),
            subscriptions: HashMap::new(),
            filters: 0,
        };
        state.members.insert(connection.peer.connection, member);
        true
    }

    /// Removes a connection and closes it. False when it has gone.
    pub(crate) fn cut(&self, connection: u64) -> bool {
        let mut state = self.state();
        let Some(member) = state.members.remove(&connection) else {
            return false;
        };
        for (subscription, filters) in &member.subscriptions {
            state.forget(connection, *subscription, filters);
        }
        drop(state);
        member.connection.close();
        true
    }

    /// Publishes no more.
    pub(crate) fn silence(&self) {
        self.state().silent = true;
    }

    /// Cuts everybody, for good.
    pub(crate) fn close(&self) {
        let members = {
            let mut state = self.state();
            state.closed = true;
            state.silent = true;
            state.interest = Interest::default();
            std::mem::take(&mut state.members)
        };
        for member in members.into_values() {
            member.connection.close();
        }
    }

    /// Adds a subscription and confirms it, or denies it where there are more than `most`.
    ///
    /// # Errors
    /// When its number is in use.
    pub(crate) fn subscribe(
        &self,
        connection: &Arc<Connection>,
        id: u64,
        filters: Vec<TopicFilter>,
        most: usize,
    ) -> Result<(), Violation> {
        let mut state = self.state();
        let State {
            members, interest, ..
        } = &mut *state;
        let Some(member) = members.get_mut(&connection.peer.connection) else {
            return Ok(());
        };
        if member.subscriptions.contains_key(&id) {
            return Err(Violation("a subscription whose number is in use"));
        }
        if member.filters + filters.len() > most {
            connection.confirm(id, false);
            return Ok(());
        }
        for filter in &filters {
            let taker = Taker {
                connection: Arc::clone(connection),
                subscription: id,
            };
            interest.insert(filter, taker);
        }
        member.filters += filters.len();
        member.subscriptions.insert(id, filters);
        // Before anything that is published from now on.
        connection.confirm(id, true);
        Ok(())
    }

    /// Ends a subscription.
    pub(crate) fn unsubscribe(&self, connection: u64, id: u64) {
        let mut state = self.state();
        let Some(member) = state.members.get_mut(&connection) else {
            return;
        };
        if let Some(filters) = member.subscriptions.remove(&id) {
            member.filters -= filters.len();
            state.forget(connection, id, &filters);
        }
    }

    /// Hands a publication to every connection that takes it. Returns whether one of them begins to
    /// fall behind.
    fn publish(&self, topic: &Topic, payload: Bytes) -> Result<bool> {
        // Encoded before the lock, which all publishers share.
        let publication = Publication::new(topic, payload);
        let mut state = self.state();
        if state.silent {
            return Err(Error::closed());
        }
        state.published += 1;
        let (mut behind, mut lost) = (false, 0);
        // Under the lock, so that every subscriber sees the same order.
        let State {
            interest,
            log,
            published,
            ..
        } = &mut *state;
        let has_many_takers = interest.takers(topic).nth(FEW).is_some();
        let publication = Logged::new(log, publication, has_many_takers);
        for taker in interest.takers(topic) {
            let (connection, subscription) = (&taker.connection, taker.subscription);
            match connection.publish(*published, &publication, subscription) {
                Taken::Yes => {}
                Taken::Half => behind = true,
                Taken::Dropped => lost += 1,
            }
        }
        drop(state);
        if lost > 0 {
            self.metrics.add(Metric::Lost, lost);
        }
        Ok(behind)
    }
}

impl State {
    fn forget(&mut self, connection: u64, subscription: u64, filters: &[TopicFilter]) {
        for filter in filters {
            self.interest.remove(filter, |taker| {
                taker.subscription == subscription && taker.connection.peer.connection == connection
            });
        }
    }
}
