//! The serving side of publications: one XPUB socket.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{Context, Instant, Metric, Publisher, Result, Topic};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::bind::BoundPath;
use crate::feed::{Feed, OpenFeed};
use crate::lifetime::Ending;
use crate::native::{self, IntOption};
use crate::numbered::Numbered;
use crate::server::note;
use crate::socket::{BATCH, Monitored, Sent};

/// How long at most the publisher waits for a subscriber whose queue is full before that subscriber
/// loses what does not fit. libzmq then leaves it out until it has read half of its queue, so that one
/// that does not read costs this once, and not for every message.
///
/// And never more than half of the time: a wait is at most as long as the time since the last one.
/// Without any wait a burst of more than a queue would be lost by subscribers that are not slow at
/// all, only not yet scheduled.
const STALL: Duration = Duration::from_millis(50);

/// Hands publications to the task that owns the socket.
#[derive(Debug)]
pub(crate) struct ZmqPublisher {
    pub(crate) feed: Arc<Feed>,
    pub(crate) _alive: Arc<DropGuard>,
}

#[async_trait]
impl Publisher for ZmqPublisher {
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        self.feed.publish(topic, &payload).await
    }

    fn subscriptions(&self, topic: &Topic) -> usize {
        self.feed.subscriptions(topic)
    }
}

/// The task that owns the socket.
pub(crate) struct Distributor {
    pub(crate) feed: OpenFeed,
    pub(crate) watched: Monitored,
    /// Goes after the socket.
    pub(crate) path: Option<BoundPath>,
    /// The ports that subscribers connect to.
    pub(crate) ports: Vec<u16>,
    /// How many subscriptions came over each descriptor.
    pub(crate) subscribed: Numbered<i32, usize>,
    pub(crate) context: Context,
    pub(crate) stop: CancellationToken,
    pub(crate) ending: Arc<Ending>,
}

impl Distributor {
    pub(crate) async fn run(mut self) {
        let mut beat = self
            .context
            .clock
            .interval(self.context.limits.ping_interval / 2);
        let mut unsent = VecDeque::new();
        // Until when the first of the unsent may wait for a subscriber whose queue is full.
        let mut stalled: Option<Instant> = None;
        let mut waited = self.context.clock.now();
        let mut ended = false;
        loop {
            if unsent.is_empty() {
                self.feed.take(&mut unsent);
            }
            let sent = self.send(&mut unsent);
            let received = self.receive();
            while let Some(event) = self.watched.monitor.event() {
                match event.kind {
                    // The descriptor is, or will be, another connection's.
                    zmq_sys::ZMQ_EVENT_ACCEPTED | zmq_sys::ZMQ_EVENT_DISCONNECTED => {
                        self.subscribed.remove(&event.value);
                    }
                    kind => note(&self.context, kind),
                }
            }
            if sent > 0 && stalled.take().is_some() {
                waited = self.context.clock.now();
            }
            if received > 0 || sent > 0 {
                tokio::task::yield_now().await;
                continue;
            }
            if unsent.is_empty() {
                if ended {
                    break;
                }
                if self.stop.is_cancelled() {
                    // What was taken before this is still sent.
                    self.feed.close();
                    ended = true;
                    continue;
                }
                let Monitored { socket, monitor } = &mut self.watched;
                tokio::select! {
                    () = self.stop.cancelled() => {}
                    () = socket.ready() => {}
                    () = monitor.ready() => {}
                    () = self.feed.wake.notified() => {}
                    _ = beat.tick() => self.feed.beat(),
                }
                continue;
            }
            // Room may have been made while libzmq looked at its signals just now.
            if self.send(&mut unsent) > 0 {
                continue;
            }
            let now = self.context.clock.now();
            let until = *stalled.get_or_insert_with(|| now + STALL.min(now - waited));
            if now < until {
                let socket = &mut self.watched.socket;
                tokio::select! {
                    () = socket.ready() => {}
                    () = self.context.clock.until(until) => {}
                }
            } else {
                self.send_to_those_with_room(&mut unsent);
                stalled = None;
                waited = now;
            }
        }
        self.end().await;
    }

    /// Takes a batch of what subscribers say; returns how much.
    fn receive(&mut self) -> usize {
        let mut count = 0;
        while count < BATCH
            && let Some(message) = self.watched.socket.receive()
        {
            count += 1;
            let known = !message.get_more() && self.feed.subscriber_said(&message);
            self.bound_subscriptions(&message);
            self.watched.socket.skip_rest(message);
            if !known {
                self.context.count(Metric::PeersRefused);
            }
        }
        count
    }

    /// Counts the subscriptions of each connection, and cuts one that has too many: libzmq keeps
    /// them all, forty bytes for each byte.
    fn bound_subscriptions(&mut self, message: &zmq::Message) {
        let (Some(what @ 0..=1), Some(source)) = (message.first(), native::source(message)) else {
            return;
        };
        let count = self.subscribed.entry(source).or_default();
        if *what == 0 {
            *count = count.saturating_sub(1);
            return;
        }
        *count += 1;
        // While it is confirmed, every filter has a second one; and there is the beat.
        let most = 2 * self.context.limits.subscriptions_per_connection + 16;
        if *count > most {
            *count = 0;
            if native::cut(source, &self.ports) {
                self.context.count(Metric::PeersRefused);
                tracing::debug!(most, "cut a subscriber with too many subscriptions");
            }
        }
    }

    /// Sends until everything is sent or a subscriber's queue is full; returns how much.
    fn send(&mut self, unsent: &mut VecDeque<zmq::Message>) -> usize {
        let mut count = 0;
        while let Some(message) = unsent.pop_front() {
            match self.watched.socket.send(None, message) {
                Sent::Taken | Sent::Gone => count += 1,
                Sent::Full(message) => {
                    unsent.push_front(message);
                    break;
                }
            }
        }
        count
    }

    /// Sends the next message to everybody whose queue is not full. Those who miss it learn so by
    /// the next number.
    fn send_to_those_with_room(&mut self, unsent: &mut VecDeque<zmq::Message>) {
        let socket = &mut self.watched.socket;
        let set = socket.set(IntOption::XpubNodrop, 0);
        if let Some(message) = unsent.pop_front() {
            socket.send(None, message);
        }
        if let Err(error) = set.and_then(|()| socket.set(IntOption::XpubNodrop, 1)) {
            tracing::warn!(%error, "could not change how an XPUB socket treats full queues");
        }
    }

    /// Sends what libzmq holds, while there is time, and closes everything.
    async fn end(self) {
        let now = self.context.clock.now();
        let left = self.ending.left(now);
        let Self {
            watched,
            context,
            ending,
            path,
            ..
        } = self;
        watched.close(left, &context).await;
        drop(path);
        if context.clock.now() > ending.deadline(now) {
            ending.cut_short();
        }
    }
}
