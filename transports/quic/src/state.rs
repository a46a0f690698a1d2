//! What all parts of one server share: its connections, and the requests that it owes an answer.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use quinn::VarInt;
use saline_engine::FrameLog;
use saline_protocol::transport::{
    Context, Error, Instant, Limits, Metric, Result, Topic, TopicFilter,
};
use saline_tls::Refusals;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::connection::{ServerLink, code};
use crate::frame::{Asked, Broken};
use crate::inbox::Inbox;
use crate::index::Index;
use crate::lock;
use crate::log::Encoded;
use crate::runtime::Tasks;

/// Connections that may be shaking hands at once.
pub(crate) const HALF_OPEN: usize = 1024;

/// What all parts of one server share.
#[derive(Debug)]
pub(crate) struct ServerCore {
    pub(crate) context: Context,
    /// Who was refused, and why: told, and counted.
    pub(crate) refusals: Refusals,
    /// quinn's own and those of the connections.
    pub(crate) tasks: Arc<Tasks>,
    /// One for each request that may be held unanswered.
    permits: Semaphore,
    pub(crate) half_open: Arc<Semaphore>,
    /// Cancelled when a shutdown begins.
    pub(crate) drain: CancellationToken,
    pub(crate) inbox: Inbox,
    /// Whether somebody waits for what is owed.
    settling: AtomicBool,
    /// While draining: an answer was given, or a link has gone.
    settled: Notify,
    state: Mutex<State>,
    ending: Mutex<Ending>,
}

#[derive(Debug, Default)]
struct State {
    /// No connections, subscriptions and publications any more.
    closed: bool,
    last_number: u64,
    links: HashMap<u64, Entry>,
    index: Index,
    log: FrameLog,
    /// The number of the last publication.
    published: u64,
}

#[derive(Debug)]
struct Entry {
    link: Arc<ServerLink>,
    subscriptions: HashMap<u64, Vec<TopicFilter>>,
    filters: usize,
}

#[derive(Debug, Default)]
struct Ending {
    deadline: Option<Instant>,
    cut_short: bool,
}

impl ServerCore {
    pub(crate) fn new(context: Context) -> Arc<Self> {
        let unanswered = context.limits.requests_unanswered;
        Arc::new(Self {
            tasks: Tasks::new(&context),
            permits: Semaphore::new(unanswered.min(Semaphore::MAX_PERMITS)),
            half_open: Arc::new(Semaphore::new(HALF_OPEN)),
            drain: CancellationToken::new(),
            inbox: Inbox::default(),
            settling: AtomicBool::new(false),
            settled: Notify::new(),
            state: Mutex::default(),
            ending: Mutex::default(),
            refusals: Refusals::new(),
            context,
        })
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.context.limits
    }

    /// Takes a connection in and welcomes it; its subscriptions hold from that place on.
    pub(crate) fn register(
        self: &Arc<Self>,
        address: SocketAddr,
        asked: Vec<Asked>,
    ) -> Result<Arc<ServerLink>, (VarInt, &'static str)> {
        let mut state = lock(&self.state);
        if state.closed || self.drain.is_cancelled() {
            return Err((code::SHUTDOWN, "the server goes"));
        }
        if state.links.len() >= self.limits().connections {
            return Err((code::FULL, "the server is full"));
        }
        let numbers: HashSet<_> = asked.iter().map(|asked| asked.id).collect();
        if numbers.len() < asked.len() {
            return Err((code::VIOLATION, "not a new subscription"));
        }
        let filters = asked.iter().map(|asked| asked.filters.len()).sum();
        if filters > self.limits().subscriptions_per_connection {
            return Err((code::VIOLATION, "too many subscriptions"));
        }
        state.last_number += 1;
        let link = ServerLink::new(state.last_number, address, self);
        link.publications.welcome();
        let mut subscriptions = HashMap::with_capacity(asked.len());
        for asked in asked {
            state.index.insert(&link, asked.id, &asked.filters);
            subscriptions.insert(asked.id, asked.filters);
        }
        let entry = Entry {
            link: Arc::clone(&link),
            subscriptions,
            filters,
        };
        state.links.insert(link.number, entry);
        drop(state);
        self.context.count(Metric::Connected);
        Ok(link)
    }

    /// Forgets a connection. False when that was done before.
    pub(crate) fn unregister(&self, link: &ServerLink) -> bool {
        let mut state = lock(&self.state);
        let Some(entry) = state.links.remove(&link.number) else {
            return false;
        };
        for (id, filters) in &entry.subscriptions {
            state.index.remove(link, *id, filters);
        }
        drop(state);
        link.close();
        self.context.count(Metric::Disconnected);
        self.settled.notify_one();
        true
    }

    /// Adds a subscription, or refuses it when there are too many.
    pub(crate) fn subscribe(&self, link: &Arc<ServerLink>, asked: Asked) -> Result<(), Broken> {
        let mut state = lock(&self.state);
        let most = self.limits().subscriptions_per_connection;
        let State { links, index, .. } = &mut *state;
        let Some(entry) = links.get_mut(&link.number) else {
            return Err(Broken::Gone);
        };
        let id = asked.id;
        if entry.subscriptions.contains_key(&id) || asked.filters.is_empty() {
            return Err(Broken::Violation("not a new subscription"));
        }
        let taken = entry.filters + asked.filters.len() <= most;
        if taken {
            entry.filters += asked.filters.len();
            index.insert(link, id, &asked.filters);
            entry.subscriptions.insert(id, asked.filters);
        }
        // Under the lock: what is published next comes after it.
        link.publications.confirm(id, taken);
        Ok(())
    }

    pub(crate) fn unsubscribe(&self, link: &ServerLink, id: u64) {
        let mut state = lock(&self.state);
        let State { links, index, .. } = &mut *state;
        if let Some(entry) = links.get_mut(&link.number)
            && let Some(filters) = entry.subscriptions.remove(&id)
        {
            entry.filters -= filters.len();
            index.remove(link, id, &filters);
            link.publications.forget(id);
        }
    }

    /// Hands `payload` to every connection that asked for `topic`.
    pub(crate) fn publish(&self, topic: &Topic, payload: &Bytes) -> Result<()> {
        let mut lost = 0;
        {
            // Under the lock, so that all see the same order.
            let mut state = lock(&self.state);
            if state.closed || self.drain.is_cancelled() {
                return Err(Error::closed());
            }
            state.published += 1;
            let State {
                index,
                log,
                published,
                ..
            } = &mut *state;
            let mut message = None;
            for taker in index.takers(topic) {
                let message = message.get_or_insert_with(|| {
                    let takers = index.takers(topic).count();
                    Encoded::new(log, topic, payload, takers)
                });
                let (link, subscription) = (&taker.link, taker.subscription());
                let (queue, size) = (&link.publications, payload.len());
                lost += queue.offer(*published, subscription, message, size, &link.alone);
            }
        }
        if lost > 0 {
            self.context.metrics.add(Metric::Lost, lost);
        }
        Ok(())
    }

    /// How many subscriptions take `topic`.
    pub(crate) fn subscriptions(&self, topic: &Topic) -> usize {
        lock(&self.state).index.count(topic)
    }

    /// Takes room for one request more, if there is any. It is given back by
    /// [`release`](Self::release).
    pub(crate) fn try_permit(&self) -> bool {
        self.permits
            .try_acquire()
            .map(SemaphorePermit::forget)
            .is_ok()
    }

    /// Waits for room for one request more.
    pub(crate) async fn permit(&self) -> Result<(), Broken> {
        let permit = self.permits.acquire().await;
        permit
            .map(SemaphorePermit::forget)
            .map_err(|_| Broken::Gone)
    }

    /// Gives the room of one request back.
    pub(crate) fn release(&self) {
        self.permits.add_permits(1);
    }

    /// A request that was handed out has its answer.
    pub(crate) fn answered(&self) {
        self.release();
        if self.settling.load(Ordering::SeqCst) {
            self.settled.notify_one();
        }
    }

    /// Waits until nothing is owed to anybody who is still there.
    pub(crate) async fn settle(&self) {
        // Before the first look, so that whoever answers after it sees it.
        self.settling.store(true, Ordering::SeqCst);
        let owed = || {
            let state = lock(&self.state);
            let mut links = state.links.values();
            links.any(|entry| entry.link.owed.load(Ordering::SeqCst) > 0)
        };
        while owed() {
            self.settled.notified().await;
        }
    }

    /// Has every connection write what it holds and say goodbye, and waits until all are gone.
    pub(crate) async fn say_goodbye(&self) {
        for entry in lock(&self.state).links.values() {
            entry.link.finish();
        }
        while !lock(&self.state).links.is_empty() {
            self.settled.notified().await;
        }
    }

    /// Cuts a connection. False when it has gone.
    pub(crate) fn cut(&self, connection: u64) -> bool {
        let link = {
            let state = lock(&self.state);
            let entry = state.links.get(&connection);
            entry.map(|entry| Arc::clone(&entry.link))
        };
        link.is_some_and(|link| self.unregister(&link))
    }

    /// Begins a shutdown that has that much time, unless one has begun.
    pub(crate) fn begin_shutdown(&self, time: Duration) {
        let until = self.context.clock.after(time);
        lock(&self.ending).deadline.get_or_insert(until);
        self.drain.cancel();
    }

    /// Hands out no request more. Returns until when those that are out may be answered.
    pub(crate) fn stop_requests(&self) -> Instant {
        self.inbox.close();
        let deadline = lock(&self.ending).deadline;
        deadline.unwrap_or_else(|| self.context.clock.now())
    }

    /// The shutdown did not come to its end in time.
    pub(crate) fn cut_short(&self) {
        lock(&self.ending).cut_short = true;
    }

    pub(crate) fn was_cut_short(&self) -> bool {
        lock(&self.ending).cut_short
    }

    /// Ends everything at once.
    pub(crate) fn close(&self) {
        self.drain.cancel();
        self.permits.close();
        self.stop_requests();
        let links: Vec<_> = {
            let mut state = lock(&self.state);
            state.closed = true;
            let entries = state.links.values();
            entries.map(|entry| Arc::clone(&entry.link)).collect()
        };
        for link in links {
            self.unregister(&link);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        lock(&self.state).links.len() >= self.limits().connections
    }
}
