//! Who is connected and who takes what; publishing.
//!
//! A publication looks at every filter of every connection: the plainest way, and enough for some
//! thousand subscribers. An index over filters, as Saline's own TCP transport has one, goes further.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{
    Error, Metric, MetricsSink, Publisher, Result, Topic, TopicFilter,
};
use tokio_util::sync::DropGuard;

use crate::connection::Connection;
use crate::frame::{Frame, Violation};
use crate::lock;

/// Publishes for one server.
#[derive(Debug)]
pub(crate) struct WsPublisher {
    pub(crate) hub: Arc<Hub>,
    pub(crate) _alive: Arc<DropGuard>,
}

#[async_trait]
impl Publisher for WsPublisher {
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        self.hub.publish(topic, payload)
    }

    fn subscriptions(&self, topic: &Topic) -> usize {
        let state = lock(&self.hub.state);
        let takers = state.members.values().map(|member| member.takers(topic));
        takers.map(|takers| takers.count()).sum()
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
    /// Nothing is published any more.
    silent: bool,
}

#[derive(Debug)]
struct Member {
    connection: Arc<Connection>,
    subscriptions: HashMap<u64, Vec<TopicFilter>>,
}

impl Member {
    /// The subscriptions that take `topic`, each once.
    fn takers(&self, topic: &Topic) -> impl Iterator<Item = u64> {
        let takes = |filters: &Vec<TopicFilter>| filters.iter().any(|f| f.matches(topic));
        let all = self.subscriptions.iter();
        all.filter(move |(_, filters)| takes(filters))
            .map(|(id, _)| *id)
    }
}

impl Hub {
    pub(crate) fn new(metrics: Arc<dyn MetricsSink>) -> Self {
        Self {
            state: Mutex::default(),
            metrics,
        }
    }

    /// Adds a connection.
    pub(crate) fn admit(&self, connection: &Arc<Connection>) {
        let member = Member {
            connection: Arc::clone(connection),
            subscriptions: HashMap::new(),
        };
        let number = connection.peer.connection;
        lock(&self.state).members.insert(number, member);
    }

    /// Removes a connection and ends its task. False when it has gone.
    pub(crate) fn cut(&self, number: u64) -> bool {
        let member = lock(&self.state).members.remove(&number);
        if let Some(member) = &member {
            member.connection.closed.cancel();
        }
        member.is_some()
    }

    /// Publishes no more.
    pub(crate) fn silence(&self) {
        lock(&self.state).silent = true;
    }

    /// Adds a subscription and confirms it, or denies it where there would be more than `most`.
    ///
    /// # Errors
    /// When its number is in use.
    pub(crate) fn subscribe(
        &self,
        connection: &Connection,
        id: u64,
        filters: Vec<TopicFilter>,
        most: usize,
    ) -> Result<(), Violation> {
        let mut state = lock(&self.state);
        let Some(member) = state.members.get_mut(&connection.peer.connection) else {
            return Ok(());
        };
        if member.subscriptions.contains_key(&id) {
            return Err(Violation("a subscription whose number is in use"));
        }
        let held: usize = member.subscriptions.values().map(Vec::len).sum();
        if filters.is_empty() || held + filters.len() > most {
            connection.tell(Frame::Denied(id));
            return Ok(());
        }
        member.subscriptions.insert(id, filters);
        // Under the lock: before anything that is published from now on.
        connection.tell(Frame::Subscribed(id));
        Ok(())
    }

    /// Ends a subscription.
    pub(crate) fn unsubscribe(&self, connection: &Connection, id: u64) {
        let number = connection.peer.connection;
        if let Some(member) = lock(&self.state).members.get_mut(&number) {
            member.subscriptions.remove(&id);
        }
    }

    fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        let size = payload.len();
        // Encoded once for all, and before the lock.
        let topic_of = topic.clone();
        let message = Frame::Publication {
            topic: topic_of,
            payload,
        }
        .encode();
        let mut lost = 0;
        {
            // Under the lock, so that every subscriber sees the same order.
            let state = lock(&self.state);
            if state.silent {
                return Err(Error::closed());
            }
            for member in state.members.values() {
                let mut takers = member.takers(topic).peekable();
                if takers.peek().is_some() {
                    lost += member.connection.publish(&message, size, takers);
                }
            }
        }
        if lost > 0 {
            self.metrics.add(Metric::Lost, lost);
        }
        Ok(())
    }
}
