//! One session, as the master holds it.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use saline_protocol::channel::record::ResponderRecords;
use saline_protocol::channel::{ChannelError, PublicIdentity, PublicationRoot};
use saline_protocol::message::{Header, Jid, MinionId, SessionId};

/// Whose session it is, proven by its keys. The only authority there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// A minion.
    Minion(MinionId),
    /// Somebody who gives orders.
    Operator(String),
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minion(id) => write!(f, "minion {id}"),
            Self::Operator(name) => write!(f, "operator {name}"),
        }
    }
}

/// How far a session is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its key is accepted.
    Accepted,
    /// Its key is not accepted (yet): it may poll.
    Waiting,
    /// Another session of the same minion took its place.
    Replaced,
    /// Its key was deleted or rejected.
    KeyGone,
}

/// The number of the last publication on a session's own topic.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnNumber {
    /// The epoch that it belongs to.
    pub epoch: u64,
    /// The number.
    pub last: u64,
}

/// One session, as the master holds it.
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
    pub principal: Principal,
    /// The identity that was proven.
    pub identity: PublicIdentity,
    /// Over which listener it came, by the number of it.
    pub listener: usize,
    /// Where the keys of its own topic come from.
    pub publications: Arc<PublicationRoot>,
    pub(super) state: Mutex<State>,
    /// When it spoke last, in milliseconds since the table was made.
    pub(super) heard: AtomicU64,
}

pub(super) struct State {
    pub(super) records: ResponderRecords,
    pub(super) standing: Standing,
    /// Whether a record has opened, which proves that the handshake was not a replayed one.
    pub(super) proven: bool,
    /// Whether it fell silent and that was told. It keeps its place and is back with its next word.
    pub(super) lost: bool,
    pub(super) running: Vec<Jid>,
    pub(super) own: OwnNumber,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done under these locks, so a panic elsewhere does not spoil them.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Opens a request, once, and says how far the session is let in.
    ///
    /// # Errors
    /// When it does not open, or did before.
    pub fn open(
        &self,
        header: &Header,
        sealed: &[u8],
    ) -> Result<(Vec<u8>, Standing), ChannelError> {
        let mut state = lock(&self.state);
        let plain = state.records.open_request(header, sealed)?;
        Ok((plain, state.standing))
    }

    /// It has ended, for this reason: it is told so when it speaks next, and holds nothing more.
    pub(super) fn end(&self, why: Standing) {
        let mut state = lock(&self.state);
        state.standing = why;
        state.running = Vec::new();
    }

    /// Seals the reply to the request whose header that was.
    pub fn seal(&self, header: &Header, plain: &[u8]) -> Bytes {
        lock(&self.state).records.seal_reply(header, plain)
    }

    /// How far it is let in.
    pub fn standing(&self) -> Standing {
        lock(&self.state).standing
    }

    /// What its minion runs, as the last heartbeat said.
    pub fn running(&self) -> Vec<Jid> {
        lock(&self.state).running.clone()
    }

    /// Notes what its minion runs.
    pub fn set_running(&self, running: Vec<Jid>) {
        lock(&self.state).running = running;
    }

    /// The number for the next publication on its own topic in `epoch`.
    pub fn next_own(&self, epoch: u64) -> u64 {
        let own = &mut lock(&self.state).own;
        if own.epoch != epoch {
            *own = OwnNumber { epoch, last: 0 };
        }
        own.last += 1;
        own.last
    }

    /// The number of the last publication on its own topic in `epoch`.
    pub fn last_own(&self, epoch: u64) -> u64 {
        let own = lock(&self.state).own;
        if own.epoch == epoch { own.last } else { 0 }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} of {})", self.id, self.principal)
    }
}
