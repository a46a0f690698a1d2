//! One session, at the master's side.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use saline_channel::noise::SplitKeys;
use saline_channel::record::ResponderRecords;
use saline_channel::{ChannelError, PublicIdentity, PublicationRoot};
use saline_messages::{EventOrigin, Header, Jid, MinionFunctions, PeerVersion, SessionId};
use saline_protocol::transport::{Instant, Peer};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::ListenerKind;
use super::table::Table;
use crate::authorize::Principal;
use crate::bounds::{Rate, TokenBucket};

/// How often a session whose key waits may poll. Minions do so every ten seconds, unless
/// `acceptance_wait_time` is set.
const POLLS: Rate = Rate {
    per_second: 10.0,
    burst: 20.0,
};

/// The state of a session, which decides what it may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
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

impl SessionState {
    const ALL: [Self; 4] = [
        Self::Accepted,
        Self::Unaccepted,
        Self::Replaced,
        Self::KeyGone,
    ];
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
    pub listener_kind: ListenerKind,
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
    pub listener_kind: ListenerKind,
    /// The number of the listener that the session was made over.
    pub listener: usize,
    /// The connection that the session was made over, with its source.
    pub peer: Peer,
    /// Derives the keys of the session's own topic.
    pub publications: Arc<PublicationRoot>,
    /// What nobody but the session itself looks at. This lock is never held together with the table's.
    own: Mutex<Own>,
    /// Changed under the table's lock alone, and read without it.
    state: AtomicU8,
    /// Notified at each request.
    pub(super) spoke: Notify,
}

struct Own {
    records: ResponderRecords,
    /// The jobs that the minion runs, by its last heartbeat.
    running: Vec<Jid>,
    /// Whether jobs wait on the minion for one of those to end, by its last heartbeat.
    is_busy: bool,
    number: OwnNumber,
    /// The functions that the minion reported in this session; none before that.
    functions: Option<Arc<MinionFunctions>>,
    /// The polls that it may make before its key is accepted; none before the first.
    polls: Option<TokenBucket>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is complete in one step, so a poisoned lock is still valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Makes a session, which stands in no table yet.
    pub(super) fn new(new: NewSession, keys: &SplitKeys) -> Self {
        let records = ResponderRecords::new(keys);
        Self {
            id: new.id,
            principal: new.principal,
            version: new.version,
            identity: new.identity,
            listener_kind: new.listener_kind,
            listener: new.listener,
            peer: new.peer,
            publications: Arc::clone(&records.publications),
            own: Mutex::new(Own {
                records,
                running: Vec::new(),
                is_busy: false,
                number: OwnNumber::default(),
                functions: None,
                polls: None,
            }),
            state: AtomicU8::new(new.state as u8),
            spoke: Notify::new(),
        }
    }

    /// Returns a future that is ready when the peer has made its next request after it was enabled or polled first.
    pub fn spoke(&self) -> Notified<'_> {
        self.spoke.notified()
    }

    /// Returns the origin of the events that its peer causes.
    pub fn event_origin(&self) -> EventOrigin {
        self.principal.event_origin().in_session(self.id)
    }

    /// Opens a request and returns it with the session's state. A request opens once.
    ///
    /// # Errors
    /// When the request does not open, or has been opened before.
    pub fn open(
        &self,
        header: &Header,
        sealed: Bytes,
    ) -> Result<(BytesMut, SessionState), ChannelError> {
        let plain = lock(&self.own).records.open_request(header, sealed)?;
        Ok((plain, self.state()))
    }

    /// Seals the reply to the request with this header.
    pub fn seal(&self, header: &Header, plain: Vec<u8>) -> Bytes {
        lock(&self.own).records.seal_reply(header, plain)
    }

    /// Returns what the session may do now.
    pub fn state(&self) -> SessionState {
        SessionState::ALL[usize::from(self.state.load(Ordering::Acquire))]
    }

    /// Changes what the session may do. Who calls this has the table to itself.
    pub(super) fn set_state(&self, _: &mut Table, state: SessionState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Takes a poll from what the session may do before its key is accepted.
    ///
    /// # Errors
    /// When it polls too often: the delay after which it may poll again.
    pub fn take_poll(&self, now: Instant) -> Result<(), Duration> {
        let mut own = lock(&self.own);
        let polls = own.polls.get_or_insert(TokenBucket::full(POLLS, now));
        polls.take_one(POLLS, now)
    }

    /// Returns the jobs that the minion runs, by its last heartbeat.
    pub fn running(&self) -> Vec<Jid> {
        lock(&self.own).running.clone()
    }

    /// Whether jobs wait on the minion until one of those that it runs has ended, by its last heartbeat.
    pub fn is_busy(&self) -> bool {
        lock(&self.own).is_busy
    }

    /// Notes the jobs that the minion runs, and whether others wait there.
    pub fn set_running(&self, running: Vec<Jid>, is_busy: bool) {
        let mut own = lock(&self.own);
        own.running = running;
        own.is_busy = is_busy;
    }

    /// Returns the functions that the minion reported; none if they are not known.
    pub fn functions(&self) -> Option<Arc<MinionFunctions>> {
        lock(&self.own).functions.clone()
    }

    /// Notes the functions of the minion, or that they are not known.
    pub fn set_functions(&self, functions: Option<Arc<MinionFunctions>>) {
        lock(&self.own).functions = functions;
    }

    /// Returns the number for the next publication on the session's own topic in `epoch`.
    pub fn next_own(&self, epoch: u64) -> u64 {
        let number = &mut lock(&self.own).number;
        if number.epoch != epoch {
            *number = OwnNumber { epoch, last: 0 };
        }
        number.last += 1;
        number.last
    }

    /// Returns the number of the last publication on the session's own topic in `epoch`.
    pub fn last_own(&self, epoch: u64) -> u64 {
        let number = lock(&self.own).number;
        if number.epoch == epoch {
            number.last
        } else {
            0
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} of {})", self.id, self.principal)
    }
}
