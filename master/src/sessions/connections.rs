//! Which session stands on which connection, and the connections on which none stands any more: the transport would
//! go on with the limits of an admitted peer for them.

use std::collections::HashMap;

use saline_messages::SessionId;
use saline_protocol::transport::Peer;

use super::ListenerKind;
use super::session::{Session, SessionState, lock};
use super::table::{Sessions, Table};
use crate::authorize::Principal;

/// A connection of one of the master's listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    /// The number of the listener.
    pub listener: usize,
    /// The connection, by the transport.
    pub peer: Peer,
}

/// The connections of sessions.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// The session whose last request came over each connection.
    sessions: HashMap<ConnectionId, SessionId>,
    /// The connections on which no session stands any more, which are to be cut.
    ended: Vec<ConnectionId>,
}

impl Connections {
    /// Takes a connection from a session. Returns false when another session stands on it.
    fn release(&mut self, connection: ConnectionId, session: SessionId) -> bool {
        let stands = self.sessions.get(&connection) == Some(&session);
        if stands {
            self.sessions.remove(&connection);
        }
        stands
    }
}

impl Table {
    /// Has a session leave its connection, which is to be cut if no other session stands on it. Who reaches the
    /// local endpoint has the same limits everywhere, and keeps its connection.
    pub(super) fn leave_connection(&mut self, session: &Session) {
        let entry = self.all.get_mut(&session.id);
        let connection = entry.and_then(|entry| entry.connection.take());
        if let Some(connection) = connection {
            self.end_connection(session, connection);
        }
    }

    fn end_connection(&mut self, session: &Session, connection: ConnectionId) {
        if self.connections.release(connection, session.id)
            && session.listener_kind != ListenerKind::Local
        {
            self.connections.ended.push(connection);
        }
    }
}

impl Sessions {
    /// Notes that a request in an accepted session came over a connection of `listener`. Returns true when the
    /// transport must be told that a session stands on it: it is another connection than that of the request
    /// before, which is to be cut. Returns false for a session that has ended meanwhile.
    pub fn note_connection(&self, session: &Session, listener: usize, peer: Peer) -> bool {
        let connection = ConnectionId { listener, peer };
        let table = &mut *lock(&self.table);
        let Some(entry) = table.all.get_mut(&session.id) else {
            return false;
        };
        if session.state() != SessionState::Accepted || entry.connection == Some(connection) {
            return false;
        }
        let before = entry.connection.replace(connection);
        if let Some(before) = before {
            table.end_connection(session, before);
        }
        table.connections.sessions.insert(connection, session.id);
        true
    }

    /// Notes that a connection has ended. Its minion is gone unless it speaks within a second.
    pub fn departed(&self, listener: usize, peer: Peer) {
        let connection = ConnectionId { listener, peer };
        let now = self.time.now();
        let table = &mut *lock(&self.table);
        let Some(id) = table.connections.sessions.remove(&connection) else {
            return;
        };
        let Some(entry) = table.all.get_mut(&id) else {
            return;
        };
        // It speaks over another connection already.
        if entry.connection != Some(connection) {
            return;
        }
        (entry.connection, entry.cut) = (None, Some(now));
        if let Principal::Minion(_) = &entry.session.principal {
            table.cut.push_back((now, id));
        }
    }

    /// Takes the connections that are to be cut, if there are more than `most`.
    pub fn take_ended_connections(&self, most: usize) -> Vec<ConnectionId> {
        let ended = &mut lock(&self.table).connections.ended;
        match ended.len() > most {
            true => std::mem::take(ended),
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
impl Sessions {
    /// Returns the connections on which sessions stand.
    pub(super) fn connections(&self) -> Vec<(ConnectionId, SessionId)> {
        let table = lock(&self.table);
        let all = table.connections.sessions.iter();
        all.map(|(connection, session)| (*connection, *session))
            .collect()
    }
}
