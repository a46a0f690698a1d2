//! One session, at the master's side.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use saline_channel::record::ResponderRecords;
use saline_channel::{ChannelError, PublicIdentity, PublicationRoot};
use saline_messages::{EventOrigin, Header, Jid, Lease, MinionId, PeerVersion, SessionId, StartId};
use saline_protocol::transport::{Instant, Peer};

use super::connections::ConnectionId;
use super::unconfirmed::Origin;
use crate::bounds::{Rate, TokenBucket};

/// How often a session whose key waits may poll. Minions do so every ten seconds, unless
/// `acceptance_wait_time` is set.
const POLLS: Rate = Rate {
    per_second: 10.0,
    burst: 20.0,
};

/// The peer of a session, proven by its keys. Authority comes from this alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// A minion.
    Minion(MinionId),
    /// A program beside the minion with this id, which has its key.
    Caller(MinionId),
    /// An operator, by name.
    Operator(String),
}

impl Principal {
    /// Returns the minion's id; none for a caller or an operator.
    pub fn minion(&self) -> Option<&MinionId> {
        match self {
            Self::Minion(id) => Some(id),
            Self::Caller(_) | Self::Operator(_) => None,
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minion(id) => write!(f, "minion {id}"),
            Self::Caller(id) => write!(f, "a caller on minion {id}"),
            Self::Operator(name) => write!(f, "operator {name}"),
        }
    }
}

/// The state of a session, which decides what it may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// The key is accepted: every verb of its audience is open.
    Accepted,
    /// The key is not accepted, or not yet: the session may only poll.
    Unaccepted,
    /// The session has ended: another session of the same minion took its place.
    Replaced,
    /// The session has ended: its key was deleted or rejected.
    KeyGone,
}

/// The number of the last publication on a session's own topic.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnNumber {
    /// The epoch of the number.
    pub epoch: u64,
    /// The number.
    pub last: u64,
}

/// The description of a session that is to be added to the table.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// The session's id.
    pub id: SessionId,
    /// The peer.
    pub principal: Principal,
    /// The protocol version that the session has, and the peer's software.
    pub version: PeerVersion,
    /// The identity that the peer has proven.
    pub identity: PublicIdentity,
    /// The kind of listener over which the peer came.
    pub origin: Origin,
    /// The number of the listener that the session is made over.
    pub listener: usize,
    /// The connection that the session is made over, with its source.
    pub peer: Peer,
    /// Whether the handshake cannot have been a replay.
    pub proven: bool,
    /// The state of the session.
    pub state: SessionState,
}

/// One session, at the master's side.
pub struct Session {
    /// The session's id.
    pub id: SessionId,
    /// The peer.
    pub principal: Principal,
    /// The protocol version that the session has, and the peer's software.
    pub version: PeerVersion,
    /// The identity that the peer has proven.
    pub identity: PublicIdentity,
    /// The kind of listener over which the peer came.
    pub origin: Origin,
    /// The number of the listener that the session was made over.
    pub listener: usize,
    /// The connection that the session was made over, with its source.
    pub peer: Peer,
    /// Derives the keys of the session's own topic.
    pub publications: Arc<PublicationRoot>,
    pub(super) inner: Mutex<Inner>,
    /// The time of its last request, in milliseconds since the table was made.
    pub(super) heard: AtomicU64,
}

pub(super) struct Inner {
    pub(super) records: ResponderRecords,
    pub(super) state: SessionState,
    /// Whether the handshake was not replayed: a record has opened, or the handshake itself proves it.
    pub(super) proven: bool,
    /// Whether the minion fell silent and was reported lost. The session stays, and the next request
    /// ends the silence.
    pub(super) lost: bool,
    /// The start of the minion, once it has reconciled.
    pub(super) start: Option<StartId>,
    /// The jobs that the minion may begin without a claim.
    pub(super) lease: Lease,
    /// The connection of its last request.
    pub(super) connection: Option<ConnectionId>,
    /// When that connection ended, in milliseconds of the table's time.
    pub(super) cut: Option<u64>,
    pub(super) running: Vec<Jid>,
    pub(super) own: OwnNumber,
    /// The polls that it may make before its key is accepted; none before the first.
    pub(super) polls: Option<TokenBucket>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is complete in one step, so a poisoned lock is still valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Returns the origin of the events that its peer causes.
    pub fn event_origin(&self) -> EventOrigin {
        let origin = match &self.principal {
            Principal::Minion(id) => EventOrigin::minion(id),
            Principal::Caller(id) => EventOrigin::caller(id),
            Principal::Operator(name) => EventOrigin::operator(name),
        };
        origin.in_session(self.id)
    }

    /// Opens a request and returns it with the session's state. A request opens once.
    ///
    /// # Errors
    /// When the request does not open, or has been opened before.
    pub fn open(
        &self,
        header: &Header,
        sealed: &[u8],
    ) -> Result<(Vec<u8>, SessionState), ChannelError> {
        let mut inner = lock(&self.inner);
        let plain = inner.records.open_request(header, sealed)?;
        Ok((plain, inner.state))
    }

    /// Ends the session: its next request is refused with this reason.
    pub(super) fn end(&self, why: SessionState) {
        let mut inner = lock(&self.inner);
        inner.state = why;
        inner.running = Vec::new();
        inner.lease = Lease::default();
    }

    /// Seals the reply to the request with this header.
    pub fn seal(&self, header: &Header, plain: &[u8]) -> Bytes {
        lock(&self.inner).records.seal_reply(header, plain)
    }

    /// Returns what the session may do now.
    pub fn state(&self) -> SessionState {
        lock(&self.inner).state
    }

    /// Returns the start of the minion; none before its reconciliation is complete.
    pub fn start(&self) -> Option<StartId> {
        lock(&self.inner).start
    }

    /// Takes a poll from what the session may do before its key is accepted.
    ///
    /// # Errors
    /// When it polls too often: the delay after which it may poll again.
    pub fn take_poll(&self, now: Instant) -> Result<(), Duration> {
        let mut inner = lock(&self.inner);
        let polls = inner.polls.get_or_insert(TokenBucket::full(POLLS, now));
        polls.take_one(POLLS, now)
    }

    /// Returns the address of the peer for people.
    pub fn shown_address(&self) -> String {
        match self.peer.address {
            Some(address) => address.to_string(),
            None => self.peer.source.to_string(),
        }
    }

    /// Returns the jobs that the minion runs, by its last heartbeat.
    pub fn running(&self) -> Vec<Jid> {
        lock(&self.inner).running.clone()
    }

    /// Notes the jobs that the minion runs.
    pub fn set_running(&self, running: Vec<Jid>) {
        lock(&self.inner).running = running;
    }

    /// Returns the number for the next publication on the session's own topic in `epoch`.
    pub fn next_own(&self, epoch: u64) -> u64 {
        let own = &mut lock(&self.inner).own;
        if own.epoch != epoch {
            *own = OwnNumber { epoch, last: 0 };
        }
        own.last += 1;
        own.last
    }

    /// Returns the number of the last publication on the session's own topic in `epoch`.
    pub fn last_own(&self, epoch: u64) -> u64 {
        let own = lock(&self.inner).own;
        if own.epoch == epoch { own.last } else { 0 }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} of {})", self.id, self.principal)
    }
}
