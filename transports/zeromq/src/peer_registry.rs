//! The peers of a server: which connections said hello and have not gone, and which are admitted.

use std::sync::{Mutex, MutexGuard, PoisonError};

use saline_engine::DepartureSender;
use saline_protocol::transport::Peer;

use crate::native::SocketId;
use crate::number_map::NumberMap;

/// What the task that owns the ROUTER socket and the server's handles share about peers. It is locked
/// when a peer comes, is admitted or goes, never for a message.
#[derive(Debug)]
pub(crate) struct PeerRegistry {
    state: Mutex<KnownPeers>,
    departures: DepartureSender,
}

#[derive(Debug, Default)]
struct KnownPeers {
    peers: NumberMap<u32, KnownPeer>,
    /// Peers that were admitted since the task last asked.
    admitted: Vec<u32>,
}

#[derive(Debug)]
struct KnownPeer {
    peer: Peer,
    socket: Option<SocketId>,
    is_admitted: bool,
}

impl PeerRegistry {
    /// Returns a registry without peers, which tells `departures`.
    pub(crate) fn new(departures: DepartureSender) -> Self {
        Self {
            state: Mutex::default(),
            departures,
        }
    }

    fn lock(&self) -> MutexGuard<'_, KnownPeers> {
        // The state is consistent after every statement, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a peer that said hello.
    pub(crate) fn add(&self, connection: u32, peer: Peer, socket: Option<SocketId>) {
        let peer = KnownPeer {
            peer,
            socket,
            is_admitted: false,
        };
        self.lock().peers.insert(connection, peer);
    }

    /// Admits a peer. Returns false when it has gone.
    pub(crate) fn admit(&self, connection: u32) -> bool {
        let mut state = self.lock();
        let KnownPeers { peers, admitted } = &mut *state;
        let Some(peer) = peers.get_mut(&connection) else {
            return false;
        };
        if !std::mem::replace(&mut peer.is_admitted, true) {
            admitted.push(connection);
        }
        true
    }

    /// Returns the peers that were admitted since the last call.
    pub(crate) fn newly_admitted(&self) -> Vec<u32> {
        std::mem::take(&mut self.lock().admitted)
    }

    /// Removes a peer whose connection has ended, and tells its departure if it was admitted.
    pub(crate) fn remove(&self, connection: u32) {
        let removed = self.lock().peers.remove(&connection);
        self.tell(removed);
    }

    /// Cuts the connection of a peer and removes it. Returns false, having changed nothing, when it
    /// cannot be cut or has gone.
    pub(crate) fn cut(&self, connection: u32) -> bool {
        let removed = {
            let mut state = self.lock();
            let socket = state.peers.get(&connection).and_then(|peer| peer.socket);
            if !socket.is_some_and(SocketId::shut_down) {
                return false;
            }
            state.peers.remove(&connection)
        };
        self.tell(removed);
        true
    }

    fn tell(&self, removed: Option<KnownPeer>) {
        if let Some(known) = removed.filter(|known| known.is_admitted) {
            self.departures.push(known.peer);
        }
    }

    /// Ends the stream of departures; no peer is known any more.
    pub(crate) fn end(&self) {
        *self.lock() = KnownPeers::default();
        self.departures.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_engine::departure_queue;
    use saline_protocol::transport::{Departure, Departures, Limits, Source};

    #[tokio::test]
    async fn an_admitted_peer_is_told_once_and_a_stranger_never() {
        let (sender, mut departures) = departure_queue(&Limits::default());
        let peers = PeerRegistry::new(sender);
        let peer = |number| Peer::new(number, Source::Process);
        peers.add(1, peer(1), None);
        peers.add(2, peer(2), None);
        assert!(peers.admit(2) && peers.admit(2) && !peers.admit(3));
        assert_eq!(peers.newly_admitted(), [2]);
        assert!(peers.newly_admitted().is_empty());
        for connection in [1, 2, 2, 3] {
            peers.remove(connection);
        }
        assert!(!peers.admit(2) && !peers.cut(2));
        peers.end();
        let gone = Departure::Gone(peer(2));
        assert_eq!(departures.next().await, Some(gone));
        assert_eq!(departures.next().await, None);
    }
}
