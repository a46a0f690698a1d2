//! The connections that said hello to the ROUTER socket.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{Instant, Limits, Peer};

use crate::liveness::{PeerLiveness, Verdict};
use crate::native::SocketId;
use crate::number_map::NumberMap;
use crate::peer_registry::PeerRegistry;
use crate::request_exchange::RequestExchange;
use crate::request_parts::PartialRequests;

/// What the task of the ROUTER socket knows of connections. It keeps the [`PeerRegistry`], which the server's
/// handles see, in step.
pub(crate) struct ConnectionTable {
    exchange: Arc<RequestExchange>,
    all: NumberMap<u32, Connected>,
    /// Their numbers by the descriptors of their sockets.
    by_descriptor: NumberMap<RawFd, u32>,
    /// Connections that have ended and whose last requests may not have been received.
    leaving: Vec<u32>,
    /// Descriptors of connections that were admitted since the task last asked.
    newly_admitted: Vec<RawFd>,
    /// What has come of their requests.
    partial: PartialRequests,
}

/// A connection that said hello.
struct Connected {
    peer: Peer,
    socket: Option<SocketId>,
    /// The liveness of an admitted peer. The silence of others is left to TCP's keep-alive.
    liveness: Option<PeerLiveness>,
}

impl ConnectionTable {
    /// Returns a table without connections.
    pub(crate) fn new(exchange: Arc<RequestExchange>, limits: &Limits) -> Self {
        Self {
            exchange,
            all: NumberMap::default(),
            by_descriptor: NumberMap::default(),
            leaving: Vec::new(),
            newly_admitted: Vec::new(),
            partial: PartialRequests::new(limits),
        }
    }

    fn peers(&self) -> &PeerRegistry {
        &self.exchange.peers
    }

    /// Returns how many connections there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns whether a connection said hello and has not gone.
    pub(crate) fn contains(&self, connection: u32) -> bool {
        self.all.contains_key(&connection)
    }

    /// Returns the numbers of all connections.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.all.keys().copied().collect()
    }

    /// Adds a connection that said hello.
    pub(crate) fn add(&mut self, connection: u32, peer: Peer, socket: Option<SocketId>) {
        let connected = Connected {
            peer,
            socket,
            liveness: None,
        };
        self.all.insert(connection, connected);
        self.peers().add(connection, peer, socket);
        if let Some(SocketId { descriptor, .. }) = socket
            && let Some(gone) = self.by_descriptor.insert(descriptor, connection)
        {
            // Its end was told before its hello was read.
            self.peers().remove(gone);
            self.leaving.push(gone);
        }
    }

    /// Takes note of a sign of life. Returns its peer; `None` for a
    /// connection that is not here.
    pub(crate) fn heard(&mut self, connection: u32) -> Option<Peer> {
        let connected = self.all.get_mut(&connection)?;
        if let Some(liveness) = &mut connected.liveness {
            liveness.heard();
        }
        Some(connected.peer)
    }

    /// Takes a part of a request that is not its last, which is a sign of life too. Returns false when it is refused, with
    /// what follows of that request.
    pub(crate) fn take_part(
        &mut self,
        connection: u32,
        id: u64,
        part: &[u8],
        now: Instant,
    ) -> bool {
        if self.heard(connection).is_none() {
            return false;
        }
        let known = self.all.get(&connection);
        let is_admitted = known.is_some_and(|known| known.liveness.is_some());
        self.partial.add(connection, id, part, is_admitted, now)
    }

    /// Takes the last part of a request, or all of it. Returns the whole; none when parts of it were refused.
    pub(crate) fn whole_request(&mut self, connection: u32, id: u64, last: Bytes) -> Option<Bytes> {
        self.partial.finish(connection, id, last)
    }

    /// Returns the bytes of requests that have not come as a whole.
    pub(crate) fn partial_bytes(&self) -> usize {
        self.partial.bytes()
    }

    /// Takes note that the connection with this descriptor has ended: it stays until
    /// [`forget_leaving`](Self::forget_leaving). Its departure is told now if `is_told_now`. Returns
    /// whether there was one.
    pub(crate) fn ended(&mut self, descriptor: RawFd, is_told_now: bool) -> bool {
        let Some(connection) = self.by_descriptor.remove(&descriptor) else {
            return false;
        };
        if is_told_now {
            self.peers().remove(connection);
        }
        self.leaving.push(connection);
        true
    }

    /// Forgets the connections that have ended, once everything that they sent was received: their
    /// departures are told after their last requests.
    pub(crate) fn forget_leaving(&mut self) {
        for connection in std::mem::take(&mut self.leaving) {
            self.forget(connection);
        }
    }

    /// Forgets a connection that has gone, and tells the departure of an admitted peer.
    pub(crate) fn forget(&mut self, connection: u32) {
        let Some(gone) = self.all.remove(&connection) else {
            return;
        };
        self.partial.forget(connection);
        if let Some(SocketId { descriptor, .. }) = gone.socket
            && self.by_descriptor.get(&descriptor) == Some(&connection)
        {
            self.by_descriptor.remove(&descriptor);
        }
        self.peers().remove(connection);
    }

    /// Cuts a connection, and forgets it: nothing more is taken from it.
    pub(crate) fn cut(&mut self, connection: u32) {
        // A peer that cannot be cut has gone already, or its requests are refused.
        self.peers().cut(connection);
        self.forget(connection);
    }

    /// Returns the descriptors of the connections that [`look`](Self::look) found admitted since the last call.
    pub(crate) fn take_newly_admitted(&mut self) -> Vec<RawFd> {
        std::mem::take(&mut self.newly_admitted)
    }

    /// Refuses the requests of strangers whose parts do not come in time. Returns how many.
    pub(crate) fn refuse_late_parts(&mut self, now: Instant) -> usize {
        self.partial.refuse_late(now)
    }

    /// Cuts the admitted peers that give no sign of life, and returns those that are silent: they are to be
    /// asked for one. The look comes `late` after its time; while nothing `is_read`, silence says nothing.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        late: Duration,
        limits: &Limits,
        is_read: bool,
    ) -> Vec<u32> {
        for connection in self.exchange.peers.newly_admitted() {
            if let Some(connected) = self.all.get_mut(&connection) {
                // A client that hears nothing asks earlier, so that two ends with the same ping
                // interval say no more than one.
                let liveness = PeerLiveness::new(now, limits, limits.ping_interval);
                connected.liveness = Some(liveness);
                let descriptor = connected.socket.map(|socket| socket.descriptor);
                // Its end may have been told, and its descriptor be another one's.
                let is_its_own = |fd: &RawFd| self.by_descriptor.get(fd) == Some(&connection);
                self.newly_admitted.extend(descriptor.filter(is_its_own));
            }
        }
        let (mut silent, mut dead) = (Vec::new(), Vec::new());
        for (connection, connected) in &mut self.all {
            let Some(liveness) = &mut connected.liveness else {
                continue;
            };
            if !is_read {
                liveness.heard();
            }
            let descriptor = connected.socket.map(|socket| socket.descriptor);
            match liveness.look(now, late, descriptor) {
                Verdict::Alive => {}
                Verdict::Ask => silent.push(*connection),
                // Of a local connection nobody knows whether parts of a large message have come in, and
                // its system tells at once when it ends.
                Verdict::Dead if connected.peer.address.is_none() => {}
                Verdict::Dead => dead.push(*connection),
            }
        }
        for connection in dead {
            if self.peers().cut(connection) {
                tracing::debug!(connection, "cut a peer that gives no sign of life");
            }
        }
        silent
    }
}
