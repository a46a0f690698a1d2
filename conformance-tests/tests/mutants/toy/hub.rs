//! What goes from the server's user to its connections: publications and answers.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{
    Answer, Context, Delivery, Error, Metric, Publisher, ReplyRoute, ReplyToken, Result, Topic,
    TopicFilter,
};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::queue::{self, Receiver, Sender};
use super::wire::{self, Frame};
use crate::wire_fault::WireFault;

/// One in so many is not told of, where wake-ups are lost.
const LOST: u64 = 50;

#[derive(Debug)]
struct Subscription {
    filters: Vec<TopicFilter>,
    queue: Sender,
}

/// Who takes what.
#[derive(Debug)]
pub struct Hub {
    pub context: Context,
    pub fault: WireFault,
    pub down: CancellationToken,
    pub count: AtomicU64,
    subscriptions: Mutex<HashMap<(u64, u64), Subscription>>,
}

impl Hub {
    pub fn new(context: Context, fault: WireFault, down: CancellationToken) -> Self {
        Self {
            context,
            fault,
            down,
            count: AtomicU64::new(0),
            subscriptions: Mutex::default(),
        }
    }

    /// Adds the subscription `number` of a connection.
    pub fn subscribe(
        &self,
        key: (u64, u64),
        filters: Vec<TopicFilter>,
        admitted: &Arc<AtomicBool>,
    ) -> Receiver {
        let mut limits = self.context.limits.clone();
        if self.fault == WireFault::IgnoreBytes {
            limits.subscriber_queue_bytes = usize::MAX;
        }
        let (mut queue, receiver) = queue::queue(&limits);
        if let Some(tight) = limits.admission
            && self.fault != WireFault::QueueForStrangers
        {
            queue.tight = Some((Arc::clone(admitted), tight));
        }
        let subscription = Subscription { filters, queue };
        self.subscriptions.lock().unwrap().insert(key, subscription);
        receiver
    }

    /// The number of filters of a connection.
    pub fn filters(&self, connection: u64) -> usize {
        let all = self.subscriptions.lock().unwrap();
        let own = all.iter().filter(|((from, _), _)| *from == connection);
        own.map(|(_, own)| own.filters.len()).sum()
    }

    pub fn withdraw(&self, key: (u64, u64)) {
        self.subscriptions.lock().unwrap().remove(&key);
    }

    pub fn leave(&self, connection: u64) {
        let mut all = self.subscriptions.lock().unwrap();
        all.retain(|(from, _), _| *from != connection);
    }
}

/// The publisher of a server.
#[derive(Debug)]
pub struct ToyPublisher {
    pub hub: Arc<Hub>,
    /// What ends the server, with its last part.
    pub _end: Option<Arc<DropGuard>>,
}

#[async_trait]
impl Publisher for ToyPublisher {
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        let hub = &self.hub;
        if hub.down.is_cancelled() {
            return Err(Error::closed());
        }
        let count = hub.count.fetch_add(1, Ordering::Relaxed);
        let wake = hub.fault != WireFault::LoseNews || count % LOST != LOST - 1;
        for own in hub.subscriptions.lock().unwrap().values() {
            if own.filters.iter().any(|filter| filter.matches(topic)) {
                let message = Delivery::Message {
                    topic: topic.clone(),
                    payload: payload.clone(),
                };
                let lost = own.queue.push(message, wake);
                hub.context.metrics.add(Metric::Lost, lost);
            }
        }
        Ok(())
    }

    fn subscriptions(&self, topic: &Topic) -> usize {
        let all = self.hub.subscriptions.lock().unwrap();
        let taking = |own: &&Subscription| own.filters.iter().any(|filter| filter.matches(topic));
        all.values().filter(taking).count()
    }
}

/// What a request holds: of the server until it is answered, and of its connection until the answer is sent.
pub type Permits = [OwnedSemaphorePermit; 2];

/// The answers that wait for one connection: no more than there are permits.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: Mutex<VecDeque<(Frame, Vec<OwnedSemaphorePermit>)>>,
    wake: Notify,
}

impl Outbox {
    /// Returns the bytes of the answers that wait.
    pub fn bytes(&self) -> usize {
        let queue = self.queue.lock().unwrap();
        queue.iter().map(|(answer, _)| answer.body.len()).sum()
    }

    pub async fn next(&self) -> (Frame, Vec<OwnedSemaphorePermit>) {
        loop {
            if let Some(answer) = self.queue.lock().unwrap().pop_front() {
                return answer;
            }
            self.wake.notified().await;
        }
    }
}

/// The way back of every request of a server.
#[derive(Debug)]
pub struct Answers {
    pub fault: WireFault,
    pub waiting: Mutex<HashMap<ReplyToken, Permits>>,
    pub connections: Mutex<HashMap<u64, Arc<Outbox>>>,
    pub count: AtomicU64,
}

impl Answers {
    pub fn enter(&self, connection: u64, outbox: &Arc<Outbox>) {
        let mut connections = self.connections.lock().unwrap();
        connections.insert(connection, Arc::clone(outbox));
    }

    pub fn leave(&self, connection: u64) {
        self.connections.lock().unwrap().remove(&connection);
    }
}

impl ReplyRoute for Answers {
    fn answer(&self, token: ReplyToken, answer: Answer) {
        let Some(permits) = self.waiting.lock().unwrap().remove(&token) else {
            return;
        };
        let Some(outbox) = self
            .connections
            .lock()
            .unwrap()
            .get(&token.connection)
            .cloned()
        else {
            if self.fault == WireFault::KeepPermits {
                permits.into_iter().for_each(OwnedSemaphorePermit::forget);
            }
            return;
        };
        let frame = match answer {
            Answer::Reply(payload) => Frame::new(wire::REPLY, token.request, payload),
            Answer::NoReply => Frame::new(wire::NO_REPLY, token.request, ""),
        };
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let [server, own] = permits;
        let mut held = vec![own];
        match self.fault {
            WireFault::HoldPermits => held.push(server),
            _ => drop(server),
        }
        outbox.queue.lock().unwrap().push_back((frame, held));
        if self.fault != WireFault::LoseWakeups || count % LOST != LOST - 1 {
            outbox.wake.notify_one();
        }
    }
}
