//! The connecting side of publications: a SUB socket of its own for every subscription.
//!
//! A subscription is confirmed end to end: after its filters the subscriber subscribes to one topic
//! more for each of them, which nobody else knows. The publisher sees that in order, and answers on
//! it with the filter's current number. From there on every number follows the one before it, and a
//! gap is a loss.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use saline_engine::net::DialFailures;
use saline_engine::{DeliveryReceiver, DeliverySender, Lifetime, delivery_queue};
use saline_protocol::transport::{
    Context, Delivery, Endpoint, Error, ErrorKind, Instant, Lost, Metric, Result, Subscriber,
    Topic, TopicFilter,
};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::connection::{Connection, ReconnectPolicy, addresses};
use crate::filters::{Filters, Meaning, Payloads};
use crate::liveness::Verdict;
use crate::native;
use crate::publication_wire::{self, Published};
use crate::socket::{BATCH, SharedContext, Socket, YIELD_AFTER};

/// Subscribes to `topics` at `at`. Returns when every filter is confirmed.
pub(crate) async fn subscribe(
    shared: &Arc<SharedContext>,
    at: &Endpoint,
    topics: Vec<TopicFilter>,
    held: OwnedSemaphorePermit,
    deadline: Instant,
    context: &Context,
    lifetime: &Lifetime,
) -> Result<Box<dyn Subscriber>> {
    let (sender, receiver) = delivery_queue(&context.limits);
    let gone = CancellationToken::new();
    let mut task = SubscriptionTask {
        shared: Arc::clone(shared),
        endpoint: at.clone(),
        context: context.clone(),
        reconnect: ReconnectPolicy::new(context),
        filters: Filters::new(topics),
        odd_ping: false,
        arrived: Vec::new(),
        sender,
        stop: lifetime.stop.clone(),
        gone: gone.clone(),
    };
    let connection = task.first(deadline).await?;
    lifetime.spawn(task.run(connection));
    Ok(Box::new(ZmqSubscriber {
        receiver,
        _gone: gone.drop_guard(),
        _held: held,
    }))
}

/// The subscriber's end of a subscription.
#[derive(Debug)]
struct ZmqSubscriber {
    receiver: DeliveryReceiver,
    _gone: DropGuard,
    /// The share of its topics in the client's limit.
    _held: OwnedSemaphorePermit,
}

#[async_trait]
impl Subscriber for ZmqSubscriber {
    async fn next(&mut self) -> Option<Delivery> {
        self.receiver.next().await
    }

    async fn next_batch(&mut self, into: &mut Vec<Delivery>, most: usize) -> usize {
        self.receiver.next_batch(into, most).await
    }
}

/// The task that owns the SUB socket and replaces it when the connection breaks.
struct SubscriptionTask {
    shared: Arc<SharedContext>,
    endpoint: Endpoint,
    context: Context,
    reconnect: ReconnectPolicy,
    filters: Filters,
    /// Whether the last link ping was answered with a subscription, and not with its withdrawal.
    odd_ping: bool,
    /// Deliveries that came in together, to be queued together.
    arrived: Vec<Delivery>,
    sender: DeliverySender,
    stop: CancellationToken,
    gone: CancellationToken,
}

impl SubscriptionTask {
    /// Makes the first connection, which `subscribe` waits for.
    async fn first(&mut self, deadline: Instant) -> Result<Connection> {
        let clock = self.context.clock;
        let mut last = Error::new(
            ErrorKind::Unreachable,
            format!(
                "{}: the subscription was not confirmed in time",
                self.endpoint
            ),
        );
        while clock.now() < deadline {
            match self.dial(deadline).await {
                Ok(connection) => return Ok(connection),
                Err(error) if error.kind() == ErrorKind::Config => return Err(error),
                Err(error) => last = error,
            }
            if clock
                .deadline(deadline, self.reconnect.pause())
                .await
                .is_err()
            {
                break;
            }
        }
        Err(last)
    }

    async fn run(mut self, mut connection: Connection) {
        loop {
            self.serve(&mut connection).await;
            self.context.count(Metric::Disconnected);
            if self.stop.is_cancelled() || self.gone.is_cancelled() {
                break connection.close().await;
            }
            tracing::debug!(endpoint = %self.endpoint, "the connection for publications broke");
            drop(connection);
            self.sender.push(Delivery::Disconnected);
            let (stop, gone) = (self.stop.clone(), self.gone.clone());
            connection = tokio::select! {
                () = stop.cancelled() => break,
                () = gone.cancelled() => break,
                connection = self.redial() => connection,
            };
            tracing::debug!(endpoint = %self.endpoint, "the connection for publications stands again");
            self.sender.push(Delivery::Connected);
        }
    }

    async fn redial(&mut self) -> Connection {
        loop {
            self.reconnect.pause().await;
            let until = self
                .context
                .clock
                .after(self.context.limits.connect_timeout);
            match self.dial(until).await {
                Ok(connection) => return connection,
                Err(error) => {
                    tracing::debug!(endpoint = %self.endpoint, %error, "could not subscribe");
                }
            }
        }
    }

    /// Tries every address once.
    async fn dial(&mut self, until: Instant) -> Result<Connection> {
        let clock = self.context.clock;
        let late = || Error::new(ErrorKind::Unreachable, "not confirmed in time");
        let mut failures = DialFailures::default();
        let found = clock.deadline(until, addresses(&self.endpoint)).await;
        let Ok(found) = found else {
            return Err(failures.into_error(&self.endpoint));
        };
        let found = found?;
        for (index, address) in found.iter().enumerate() {
            let deadline = self.reconnect.attempt_deadline(until, found.len() - index);
            let queue = i32::try_from(self.context.limits.subscriber_queue_messages);
            let tune = |socket: &mut Socket| {
                // What a SUB socket sends are its subscriptions, whose number is bounded, and of
                // which none may be dropped.
                socket.options().set_sndhwm(0)?;
                socket
                    .options()
                    .set_rcvhwm(queue.unwrap_or(i32::MAX).max(1))?;
                Ok(())
            };
            let (shared, context) = (Arc::clone(&self.shared), self.context.clone());
            let opened = Connection::open(&shared, &context, address, zmq::SUB, deadline, tune);
            let confirmed = async {
                let connection = opened.await?;
                self.confirm(connection).await
            };
            match clock.deadline(deadline, confirmed).await {
                Ok(Ok(connection)) => {
                    self.reconnect.connected();
                    return Ok(connection);
                }
                Ok(Err(error)) => failures.add(&address.place, error),
                Err(_) => failures.add(&address.place, late()),
            }
        }
        failures.add_unresolved(&self.endpoint, found.iter().map(|address| &address.place));
        Err(failures.into_error(&self.endpoint))
    }

    /// Subscribes on a fresh connection and waits until the publisher has confirmed every filter.
    async fn confirm(&mut self, mut connection: Connection) -> Result<Connection> {
        let failed = |error: zmq::Error| {
            Error::new(ErrorKind::Unreachable, "could not subscribe").with_source(error)
        };
        let broken = || {
            Error::new(
                ErrorKind::Unreachable,
                "the connection broke before the subscription was confirmed",
            )
        };
        let token = RandomState::new().build_hasher().finish();
        let options = connection.monitored.socket.options();
        options
            .set_subscribe(publication_wire::PUBLISHER_PING)
            .map_err(failed)?;
        for (key, filter) in &mut self.filters.by_key {
            filter.next = None;
            options.set_subscribe(key).map_err(failed)?;
        }
        let mut asked = HashMap::new();
        for key in self.filters.by_key.keys() {
            let topic = publication_wire::confirmation(token, key);
            options.set_subscribe(&topic).map_err(failed)?;
            asked.insert(topic, key.clone());
        }
        self.filters.incarnation = 0;
        self.odd_ping = false;
        while !asked.is_empty() {
            while let Some(message) = connection.monitored.socket.receive() {
                connection.heard();
                if message.get_more() {
                    connection.monitored.socket.skip_rest(message);
                    continue;
                }
                if let Some(Published::Confirmed {
                    topic,
                    incarnation,
                    number,
                }) = Published::decode(&message)
                {
                    let Some(key) = asked.remove(topic) else {
                        continue;
                    };
                    let options = connection.monitored.socket.options();
                    options.set_unsubscribe(topic).map_err(failed)?;
                    if let Some(filter) = self.filters.by_key.get_mut(&key) {
                        filter.next = Some(number + 1);
                    }
                    if self.filters.incarnation == 0 {
                        self.filters.incarnation = incarnation;
                    }
                } else if matches!(self.filters.meaning(&message), Meaning::Broken) {
                    // What was published before the subscription stood is not for the subscriber.
                    return Err(broken());
                }
                if asked.is_empty() {
                    return Ok(connection);
                }
            }
            if connection.is_broken() {
                return Err(broken());
            }
            connection.ready().await;
        }
        Ok(connection)
    }

    /// Delivers until the connection breaks, the subscriber goes or the client is shut down.
    async fn serve(&mut self, connection: &mut Connection) {
        let (stop, gone) = (self.stop.clone(), self.gone.clone());
        loop {
            let Some(received) = self.receive(connection) else {
                return;
            };
            if connection.is_broken() {
                // What came in before the end is still delivered.
                while self
                    .receive(connection)
                    .is_some_and(|received| received > 0)
                {}
                return;
            }
            if received >= YIELD_AFTER {
                if stop.is_cancelled() || gone.is_cancelled() {
                    return;
                }
                tokio::task::yield_now().await;
                continue;
            }
            let look_due = connection.look_due();
            tokio::select! {
                () = stop.cancelled() => return,
                () = gone.cancelled() => return,
                () = connection.ready() => {}
                () = self.context.clock.until(look_due) => {
                    if self.receive(connection).is_none() {
                        return;
                    }
                    if connection.look() == Verdict::Dead {
                        tracing::debug!(endpoint = %self.endpoint, "the publisher is silent");
                        return;
                    }
                }
            }
        }
    }

    /// Delivers a batch of messages. Returns how many, or `None` when the connection must be renewed.
    fn receive(&mut self, connection: &mut Connection) -> Option<usize> {
        let (mut count, mut broken) = (0, false);
        while count < BATCH
            && self.arrived.len() < BATCH
            && let Some(message) = connection.monitored.socket.receive()
        {
            count += 1;
            if message.get_more() {
                connection.monitored.socket.skip_rest(message);
                self.context.count(Metric::PeersRefused);
                continue;
            }
            match self.filters.meaning(&message) {
                Meaning::Messages {
                    lost,
                    payloads,
                    topic,
                } => {
                    self.lose(lost);
                    self.arrive(message, payloads, &topic);
                }
                Meaning::Lost(lost) => self.lose(lost),
                Meaning::Ping => {
                    let options = connection.monitored.socket.options();
                    self.odd_ping = !self.odd_ping;
                    let answered = match self.odd_ping {
                        true => options.set_subscribe(publication_wire::SUBSCRIBER_PING),
                        false => options.set_unsubscribe(publication_wire::SUBSCRIBER_PING),
                    };
                    if let Err(error) = answered {
                        tracing::debug!(%error, "could not answer a link ping");
                    }
                }
                Meaning::Nothing => {}
                Meaning::Foreign => self.context.count(Metric::PeersRefused),
                Meaning::Broken => {
                    broken = true;
                    break;
                }
            }
        }
        if count > 0 {
            connection.heard();
        }
        count += self.arrived.len();
        if !self.arrived.is_empty() {
            let dropped = self.sender.push_all(self.arrived.drain(..));
            if dropped > 0 {
                self.context.metrics.add(Metric::Lost, dropped);
            }
        }
        (!broken).then_some(count)
    }

    fn arrive(&mut self, message: zmq::Message, payloads: Payloads, topic: &Topic) {
        let mut deliver = |payload| {
            self.arrived.push(Delivery::Message {
                topic: topic.clone(),
                payload,
            });
        };
        match payloads {
            Payloads::One(start) => deliver(native::into_bytes(message, start)),
            Payloads::Several(ranges) => {
                let frame = native::into_bytes(message, 0);
                ranges
                    .into_iter()
                    .for_each(|range| deliver(frame.slice(range)));
            }
        }
    }

    fn lose(&mut self, lost: u64) {
        if lost > 0 {
            self.arrived.push(Delivery::Lagged(Lost::Messages(lost)));
            self.context.metrics.add(Metric::Lost, lost);
        }
    }
}
