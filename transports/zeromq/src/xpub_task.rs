//! The serving side of publications: one XPUB socket.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_engine::Lifetime;
use saline_engine::net::UnixSocketFile;
use saline_protocol::transport::{Context, Instant, Metric, Publisher, Result, Topic};
use tokio_util::sync::DropGuard;

use crate::accepted::AcceptedConnections;
use crate::liveness::LookTimer;
use crate::monitor::{MonitoredSocket, note};
use crate::native::IntOption;
use crate::numbering::{OpenPublishQueue, PublishQueue};
use crate::socket::{BATCH, Sent, YIELD_AFTER};
use crate::subscriber_liveness::SubscriberLiveness;

/// How long at most the publisher waits for a subscriber whose queue is full before that subscriber
/// loses what does not fit. libzmq then leaves it out until it has read half of its queue, so that one
/// that does not read costs this once, and not for every message.
///
/// Waits never take more than half of the time: each is at most as long as the time since the last one.
/// Without any wait a burst of more than a queue would be lost by subscribers that are not slow at
/// all, only not yet scheduled.
const STALL: Duration = Duration::from_millis(50);

/// Hands publications to the task that owns the socket.
#[derive(Debug)]
pub(crate) struct ZmqPublisher {
    pub(crate) queue: Arc<PublishQueue>,
    pub(crate) _alive: Arc<DropGuard>,
}

#[async_trait]
impl Publisher for ZmqPublisher {
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        self.queue.publish(topic, payload).await
    }

    fn subscriptions(&self, topic: &Topic) -> usize {
        self.queue.subscriptions(topic)
    }
}

/// The task that owns the XPUB socket.
pub(crate) struct XpubTask {
    pub(crate) queue: OpenPublishQueue,
    pub(crate) monitored: MonitoredSocket,
    /// The file of a local endpoint, removed after the socket is closed.
    pub(crate) path: Option<UnixSocketFile>,
    pub(crate) subscribers: SubscriberLiveness,
    /// The connections by their descriptors. None is ever admitted: what a subscriber says proves nothing.
    pub(crate) accepted: AcceptedConnections,
    pub(crate) context: Context,
    pub(crate) lifetime: Arc<Lifetime>,
}

impl XpubTask {
    pub(crate) async fn run(mut self) {
        let clock = self.context.clock;
        let ping = self.context.limits.ping_interval;
        // Instants and not timers: they are kept also while there is always something to send.
        let mut next_ping = clock.after(ping / 2);
        let mut looks = LookTimer::new(clock.now(), &self.context.limits);
        let mut unsent = VecDeque::new();
        // Until when the first of the unsent may wait for a subscriber whose queue is full.
        let mut stalled: Option<Instant> = None;
        let mut waited = clock.now();
        let mut ended = false;
        loop {
            let now = clock.now();
            if now >= next_ping {
                next_ping = now + ping / 2;
                self.queue.ping();
            }
            if let Some(late) = looks.begin(now) {
                self.subscribers.look(now, late);
            }
            let taken = match unsent.is_empty() {
                true => self.queue.take(&mut unsent),
                false => 0,
            };
            let sent = self.send(&mut unsent);
            let received = self.receive();
            while let Some(event) = self.monitored.monitor.event() {
                match event.kind {
                    zmq_sys::ZMQ_EVENT_ACCEPTED => {
                        self.accepted.came(event.value);
                        self.subscribers.came(event.value);
                    }
                    zmq_sys::ZMQ_EVENT_DISCONNECTED => {
                        self.accepted.left(event.value);
                        self.subscribers.left(event.value);
                    }
                    kind => note(&self.context, kind),
                }
            }
            if sent > 0 && stalled.take().is_some() {
                waited = now;
            }
            if received + taken >= YIELD_AFTER {
                tokio::task::yield_now().await;
            }
            if received > 0 || sent > 0 {
                tokio::task::consume_budget().await;
                continue;
            }
            if unsent.is_empty() {
                if ended {
                    break;
                }
                if self.lifetime.stop.is_cancelled() {
                    // What was taken before this is still sent.
                    self.queue.close();
                    ended = true;
                    continue;
                }
                let MonitoredSocket { socket, monitor } = &mut self.monitored;
                tokio::select! {
                    () = self.lifetime.stop.cancelled() => {}
                    () = socket.ready() => {}
                    () = monitor.ready() => {}
                    () = self.queue.wake.notified() => {}
                    () = clock.until(next_ping.min(looks.due())) => {}
                }
                continue;
            }
            // Room may have been made while libzmq looked at its signals just now.
            if self.send(&mut unsent) > 0 {
                continue;
            }
            let until = *stalled.get_or_insert_with(|| now + STALL.min(now - waited));
            if now < until {
                let socket = &mut self.monitored.socket;
                tokio::select! {
                    () = socket.ready() => {}
                    () = clock.until(until) => {}
                }
            } else {
                self.send_to_those_with_room(&mut unsent);
                stalled = None;
                waited = now;
            }
        }
        self.end().await;
    }

    /// Receives a batch of subscriptions and withdrawals. Returns how many.
    fn receive(&mut self) -> usize {
        let mut count = 0;
        while count < BATCH
            && let Some(message) = self.monitored.socket.receive()
        {
            count += 1;
            let known = !message.get_more() && self.queue.subscriber_said(&message);
            self.subscribers.said(&message);
            self.monitored.socket.skip_rest(message);
            if !known {
                self.context.count(Metric::PeersRefused);
            }
        }
        count
    }

    /// Sends until everything is sent or a subscriber's queue is full. Returns how many messages.
    fn send(&mut self, unsent: &mut VecDeque<zmq::Message>) -> usize {
        let mut count = 0;
        while let Some(message) = unsent.pop_front() {
            match self.monitored.socket.send(None, message) {
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
        let socket = &mut self.monitored.socket;
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
        let left = self.lifetime.left();
        let Self {
            monitored,
            context,
            lifetime,
            path,
            ..
        } = self;
        monitored.close(left, &context).await;
        drop(path);
        if context.clock.now() > lifetime.deadline() {
            lifetime.cut_short();
        }
    }
}
