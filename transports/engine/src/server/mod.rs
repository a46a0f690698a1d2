//! The serving side: its parts, and how it ends.

mod accept;
mod connection;
mod connection_tasks;
mod greet;
mod publisher;
mod refusal_log;
mod requests;
mod ungreeted;

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use saline_protocol::transport::{
    Context, Endpoint, Instant, Metric, Peer, Result, ServeAt, Server, ServerControl, SourcePlaces,
    Topic,
};
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;

use self::accept::accept;
use self::connection::Connection;
use self::publisher::EnginePublisher;
use self::refusal_log::RefusalLog;
use self::requests::{EngineRequests, RequestQueue};
use self::ungreeted::{UngreetedTable, most_greeted};
use crate::pipe::Listener;
use crate::state::{Hub, Published};
use crate::wire::PublicationFrame;
use crate::{DepartureReceiver, DepartureSender, GRACE, Lifetime, departure_queue, lock};

/// Serves the connections of `listeners`, which are bound at `bound`: what a backend returns from
/// [`Transport::serve`](saline_protocol::transport::Transport::serve). `certificate` is the SHA-256 of
/// the certificate that the listeners show. Has to be called inside a Tokio runtime.
pub fn serve<L: Listener>(
    listeners: Vec<L>,
    bound: Endpoint,
    certificate: Option<[u8; 32]>,
    context: Context,
) -> Server {
    let (core, departed) = ServerCore::new(context, certificate);
    let lifetime = &core.lifetime;
    let open = Arc::new(CloseOnDrop(Arc::clone(&core)));
    for listener in listeners {
        lifetime.spawn(Box::pin(accept(listener, Arc::clone(&open))));
    }
    let alive = Arc::new(lifetime.cut.clone().drop_guard());
    Server::new(
        Box::new(EngineRequests::new(Arc::clone(&core), Arc::clone(&alive))),
        Arc::new(EnginePublisher {
            core: Arc::clone(&core),
            _alive: Arc::clone(&alive),
        }),
        Arc::new(EngineControl {
            core,
            _alive: alive,
        }),
        ServeAt {
            requests: bound,
            publications: None,
        },
    )
    .with_departures(departed)
}

/// The state that all parts of one server share.
#[derive(Debug)]
struct ServerCore {
    requests: RequestQueue,
    /// Locked before the queue of a connection.
    hub: Mutex<Hub<Arc<Connection>>>,
    departures: DepartureSender,
    lifetime: Arc<Lifetime>,
    started: Instant,
    /// The number of the last connection.
    connections: AtomicU64,
    /// Connections that have not greeted.
    ungreeted: UngreetedTable,
    /// The clients of the hub that are not admitted, where that is told. Locked only under the hub's lock.
    unadmitted: Mutex<SourcePlaces<u64>>,
    /// Bytes of unfinished requests of connections that are not admitted.
    partial_bytes: AtomicUsize,
    certificate: Option<[u8; 32]>,
    refusals: RefusalLog,
    /// Tells that the last connection has ended.
    emptied: Notify,
}

impl ServerCore {
    /// Returns the state of a server without connections, and its stream of departures.
    fn new(context: Context, certificate: Option<[u8; 32]>) -> (Arc<Self>, DepartureReceiver) {
        let limits = &context.limits;
        let (departures, departed) = departure_queue(limits);
        let core = Arc::new(Self {
            requests: RequestQueue::new(limits.requests_unanswered),
            hub: Mutex::default(),
            departures,
            connections: AtomicU64::new(0),
            ungreeted: UngreetedTable::new(limits),
            unadmitted: Mutex::default(),
            partial_bytes: AtomicUsize::new(0),
            certificate,
            refusals: RefusalLog::default(),
            emptied: Notify::new(),
            started: context.clock.now(),
            lifetime: Lifetime::new(context, GRACE),
        });
        (core, departed)
    }

    fn hub(&self) -> MutexGuard<'_, Hub<Arc<Connection>>> {
        lock(&self.hub)
    }

    /// Hands a publication to every connection that takes it. `None` once nothing is published any more.
    fn publish(&self, topic: &Topic, publication: &PublicationFrame) -> Option<Published> {
        // Under the lock, so that every subscriber sees the same order.
        let published = self
            .hub()
            .publish(topic, |connection, number, subscription| {
                connection.publish(number, publication, subscription)
            })?;
        if published.lost != 0 {
            let metrics = &self.lifetime.context.metrics;
            metrics.add(Metric::Lost, published.lost);
        }
        Some(published)
    }

    /// Adds a connection to the hub. When there are as many as the server may hold, one that is not admitted is
    /// cut for it: the oldest of the source that has most of those. Returns false when none is.
    fn add(&self, connection: &Arc<Connection>) -> bool {
        let context = &self.lifetime.context;
        let (number, source) = (connection.number(), connection.peer.source);
        let most = most_greeted(&context.limits);
        let mut hub = self.hub();
        let mut unadmitted = lock(&self.unadmitted);
        let mut added = hub.add(number, Arc::clone(connection), most);
        let mut cut = None;
        if !added && let Some(oldest) = unadmitted.eviction_candidate(source).copied() {
            unadmitted.release(&oldest);
            cut = hub.remove(oldest);
            added = hub.add(number, Arc::clone(connection), most);
        }
        if added && context.limits.admission.is_some() {
            unadmitted.take(number, source);
        }
        drop((unadmitted, hub));
        if let Some(cut) = cut {
            tracing::debug!(peer = %cut.peer, "its source has most connections without a session");
            context.count(Metric::PeersRefused);
            cut.close();
        }
        added
    }

    /// Cuts a connection because there is no descriptor for another one: the oldest of the source that has most, of
    /// those that have not greeted, or else of those that are not admitted. Returns false when there is none.
    fn cut_for_descriptor(&self) -> bool {
        if self.ungreeted.cut_oldest() {
            // Its task counts it.
            return true;
        }
        let oldest = lock(&self.unadmitted).oldest_of_largest().copied();
        let is_cut = oldest.is_some_and(|oldest| self.disconnect(oldest));
        if is_cut {
            self.lifetime.context.count(Metric::PeersRefused);
        }
        is_cut
    }

    /// Gives back the permits of requests that are answered.
    fn release_permits(&self, permits: usize) {
        self.resume(self.requests.release(permits));
    }

    /// Tells a connection that it may reserve permits.
    fn resume(&self, connection: Option<u64>) {
        let mut next = connection;
        while let Some(connection) = next {
            let found = self.hub().get(connection).cloned();
            match found {
                Some(connection) => return connection.permits.notify_one(),
                // It has gone meanwhile: another one may.
                None => next = self.requests.leave(connection),
            }
        }
    }

    /// Removes a connection and closes it. Returns false when it has gone.
    fn disconnect(&self, connection: u64) -> bool {
        let (removed, is_empty) = {
            let mut hub = self.hub();
            lock(&self.unadmitted).release(&connection);
            (hub.remove(connection), hub.is_empty())
        };
        let Some(removed) = removed else {
            return false;
        };
        removed.close();
        if is_empty {
            self.emptied.notify_waiters();
        }
        true
    }

    /// Waits until no connection is left.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    async fn empty(&self) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            emptied.as_mut().enable();
            if self.hub().is_empty() {
                return;
            }
            emptied.await;
        }
    }

    fn close(&self) {
        self.requests.end();
        self.departures.end();
        let members = {
            let mut hub = self.hub();
            *lock(&self.unadmitted) = SourcePlaces::default();
            hub.close()
        };
        for member in members {
            member.close();
        }
        self.emptied.notify_waiters();
    }
}

/// Held by every task of a server. When the last is gone, however they ended, nobody waits for ever.
#[derive(Debug)]
struct CloseOnDrop(Arc<ServerCore>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Cuts and admits peers, and ends the server.
#[derive(Debug)]
struct EngineControl {
    core: Arc<ServerCore>,
    _alive: Arc<DropGuard>,
}

#[async_trait]
impl ServerControl for EngineControl {
    fn admitted(&self, peer: Peer) -> bool {
        let hub = self.core.hub();
        lock(&self.core.unadmitted).release(&peer.connection);
        // Under the lock: whoever removes the connection then sees that it was admitted.
        let found = hub.get(peer.connection);
        found.inspect(|connection| connection.admit()).is_some()
    }

    fn disconnect(&self, peer: Peer) -> bool {
        self.core.disconnect(peer.connection)
    }

    fn certificate(&self) -> Option<[u8; 32]> {
        self.core.certificate
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.core.hub().silence();
        self.core.requests.end();
        let ended = self.core.lifetime.shutdown(deadline).await;
        self.core.close();
        ended
    }
}

#[cfg(test)]
mod tests;
