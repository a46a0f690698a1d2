//! The table of sessions, and its bounds.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use saline_channel::PublicIdentity;
use saline_channel::noise::SplitKeys;
use saline_channel::record::ResponderRecords;
use saline_messages::{Lease, MasterTime, MinionId, SessionId};
use saline_protocol::transport::Clock;
use tokio::sync::Notify;

use super::connections::Connections;
use super::last_seen::Departed;
use super::presence::Duplicate;
use super::running_time::RunningTime;
use super::session::{Inner, NewSession, OwnNumber, Session, SessionState, lock};
use super::unconfirmed::{Origin, UnconfirmedCount};
use crate::authorize::Principal;

/// How long half-open handshakes, and sessions that have not sent a first record, are kept.
pub const UNCONFIRMED_FOR: Duration = Duration::from_secs(5);
/// The silence after which a session is forgotten.
const IDLE_FOR: Duration = Duration::from_secs(900);
/// The silence after which an operator's session is forgotten; the command line makes a new one as
/// needed.
const OPERATOR_IDLE_FOR: Duration = Duration::from_secs(60);
/// The largest number of sessions of one id and key: the current one, replaced ones, and a new one.
const PER_KEY: usize = 4;
/// The largest number of sessions of callers with one key: as many programs may run beside a minion at once.
const CALLERS_PER_KEY: usize = 16;
/// The largest number of sessions of one user of this machine over the access socket.
const SESSIONS_PER_USER: usize = 64;
/// The number of unaccepted sessions that are held beyond the number of pending keys.
const UNACCEPTED_BESIDE_PENDING: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) all: HashMap<SessionId, Arc<Session>>,
    /// The sessions of `all` whose keys were not accepted when they were made.
    unaccepted: HashSet<SessionId>,
    /// The same in about the order of their last request: each with the time of a request that it made,
    /// which may not be its last. Others are left among them for a while.
    by_silence: VecDeque<(u64, SessionId)>,
    /// The sessions of `all` that belong to callers and to users of this machine, in the order in which they were made.
    by_program_owner: HashMap<ProgramOwner, Vec<SessionId>>,
    /// The sessions of `all` that belong to minions, in the order in which they were made.
    pub(super) by_minion: HashMap<MinionId, Vec<(PublicIdentity, SessionId)>>,
    pub(super) minions: HashMap<MinionId, Arc<Session>>,
    /// How many of `minions` fell silent and were reported lost.
    pub(super) lost: usize,
    pub(super) connections: Connections,
    /// The sessions whose connections ended a moment ago, in their order.
    pub(super) cut: VecDeque<(u64, SessionId)>,
    /// The end of the last lease of sessions that ended before it.
    pub(super) ended_leases: HashMap<MinionId, MasterTime>,
    /// The ids that two machines used lately.
    pub(super) duplicates: HashMap<MinionId, Duplicate>,
    /// The minions whose sessions were forgotten while their keys were accepted.
    pub(super) departed: HashMap<MinionId, Departed>,
    /// The minions that have arrived since this was asked last.
    pub(super) arrived: BTreeSet<MinionId>,
}

/// The table of all sessions.
#[derive(Debug)]
pub struct Sessions {
    pub(super) table: Mutex<Table>,
    unconfirmed: UnconfirmedCount,
    pub(super) time: RunningTime,
    pub(super) heartbeat: Duration,
    /// The largest number of unaccepted sessions.
    unaccepted: AtomicUsize,
    /// Notified when a minion becomes present.
    pub(super) arrival: Notify,
}

/// Whose programs may have several sessions at once, up to a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ProgramOwner {
    /// The minion with this key, beside which callers run.
    Minion(PublicIdentity),
    /// The user of this machine with this number.
    User(u32),
}

impl ProgramOwner {
    /// Returns the owner and the largest number of its sessions; none for a session that is not bounded in this way.
    fn of(session: &Session) -> Option<(Self, usize)> {
        match &session.principal {
            Principal::Caller(_) => Some((Self::Minion(session.identity), CALLERS_PER_KEY)),
            Principal::LocalUser(user) => Some((Self::User(user.uid), SESSIONS_PER_USER)),
            Principal::Minion(_)
            | Principal::LocalRoot
            | Principal::MasterUser
            | Principal::Operator(_) => None,
        }
    }
}

/// The changes that a request made to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// The request is the first record of a session whose handshake could have been a replay.
    pub is_first: bool,
    /// The session's minion had fallen silent, and is back.
    pub is_back: bool,
}

/// How a reconciliation changed the presence of a minion.
#[derive(Debug, Clone)]
pub enum PresenceChange {
    /// Not at all.
    None,
    /// The minion was not present before.
    Arrived,
    /// The minion was present with this session, which has ended now.
    Replaced(Arc<Session>),
}

impl Table {
    /// Removes the session of a minion, which is gone with it.
    fn remove_session(&mut self, minion: &MinionId) {
        let Some(session) = self.minions.remove(minion) else {
            return;
        };
        if lock(&session.inner).lost {
            self.lost -= 1;
        }
        if session.state() == SessionState::Accepted {
            self.departed.insert(minion.clone(), Departed::of(&session));
        }
    }
}

fn unaccepted_most(max_pending_keys: usize) -> usize {
    max_pending_keys.saturating_add(UNACCEPTED_BESIDE_PENDING)
}

impl Sessions {
    /// Creates an empty table. A minion is present for two heartbeats after its last request, and
    /// about as many unaccepted sessions are held as there may be pending keys.
    pub fn new(clock: Clock, heartbeat: Duration, max_pending_keys: usize) -> Self {
        Self {
            table: Mutex::default(),
            unconfirmed: UnconfirmedCount::default(),
            time: RunningTime::start(clock, heartbeat),
            heartbeat,
            unaccepted: AtomicUsize::new(unaccepted_most(max_pending_keys)),
            arrival: Notify::new(),
        }
    }

    /// Sets the largest number of pending keys.
    pub fn set_max_pending_keys(&self, most: usize) {
        self.unaccepted
            .store(unaccepted_most(most), Ordering::Relaxed);
    }

    /// Whether one more session of this origin that has proven nothing can be held.
    pub fn has_room(&self, origin: Origin) -> bool {
        self.unconfirmed.has_room(origin)
    }

    /// Adds a session. It replaces no other session before its first record. When there are too
    /// many unaccepted sessions, the one that has been silent longest is forgotten. Returns none when too
    /// many sessions of its origin, or of its key, have proven nothing.
    pub fn add(&self, new: NewSession, keys: &SplitKeys) -> Option<Arc<Session>> {
        let NewSession {
            id,
            principal,
            version,
            identity,
            origin,
            listener,
            peer,
            proven,
            state,
        } = new;
        if !proven && !self.unconfirmed.add(origin, identity) {
            return None;
        }
        let records = ResponderRecords::new(keys);
        let session = Arc::new(Session {
            id,
            principal,
            version,
            identity,
            origin,
            listener,
            peer,
            publications: Arc::clone(&records.publications),
            inner: Mutex::new(Inner {
                records,
                state,
                proven,
                lost: false,
                start: None,
                lease: Lease::default(),
                connection: None,
                cut: None,
                running: Vec::new(),
                own: OwnNumber::default(),
                polls: None,
            }),
            heard: AtomicU64::new(self.time.now()),
        });
        let mut table = lock(&self.table);
        if state == SessionState::Unaccepted {
            if table.unaccepted.len() >= self.unaccepted.load(Ordering::Relaxed) {
                self.forget_most_silent(&mut table);
            }
            table.unaccepted.insert(id);
            let heard = session.heard.load(Ordering::Relaxed);
            table.by_silence.push_back((heard, id));
        }
        table.all.insert(id, Arc::clone(&session));
        if let Some((owner, most)) = ProgramOwner::of(&session) {
            let own = table.by_program_owner.entry(owner).or_default();
            own.push(id);
            if own.len() > most {
                let oldest = own[0];
                self.forget(&mut table, oldest);
            }
        }
        if let Principal::Minion(minion) = &session.principal {
            let seated = table.minions.get(minion).map(|seated| seated.id);
            let own = table.by_minion.entry(minion.clone()).or_default();
            own.push((identity, id));
            let same = own.iter().filter(|(key, _)| *key == identity);
            let same: Vec<SessionId> = same.map(|(_, session)| *session).collect();
            if same.len() > PER_KEY {
                // Neither this one nor the one that counts: the oldest that has proven nothing, or the oldest.
                let mut others = same.iter().filter(|o| **o != id && Some(**o) != seated);
                let is_unconfirmed = |other: &&SessionId| {
                    let other = table.all.get(*other);
                    other.is_some_and(|other| !lock(&other.inner).proven)
                };
                let oldest = others.clone().next();
                if let Some(excess) = others.find(is_unconfirmed).or(oldest).copied() {
                    self.forget(&mut table, excess);
                }
            }
        }
        Some(session)
    }

    /// Removes a session from the table and from every index.
    fn forget(&self, table: &mut Table, id: SessionId) {
        table.unaccepted.remove(&id);
        let Some(session) = table.all.remove(&id) else {
            return;
        };
        if let Some((owner, _)) = ProgramOwner::of(&session)
            && let Some(own) = table.by_program_owner.get_mut(&owner)
        {
            own.retain(|other| *other != id);
            if own.is_empty() {
                table.by_program_owner.remove(&owner);
            }
        }
        if let Principal::Minion(minion) = &session.principal {
            if let Some(own) = table.by_minion.get_mut(minion) {
                own.retain(|(_, other)| *other != id);
                if own.is_empty() {
                    table.by_minion.remove(minion);
                }
            }
            if table.minions.get(minion).is_some_and(|s| s.id == id) {
                table.remove_session(minion);
            }
        }
        table.leave_connection(&session);
        self.prove(&session);
    }

    /// Forgets the unaccepted session that has been silent longest. A stranger decides how often this is
    /// called: each step that goes on to the next session was paid for by a request of that one.
    fn forget_most_silent(&self, table: &mut Table) {
        while let Some((known, id)) = table.by_silence.pop_front() {
            if !table.unaccepted.contains(&id) {
                continue;
            }
            let session = table.all.get(&id);
            let heard = session.map_or(0, |s| s.heard.load(Ordering::Relaxed));
            if heard > known {
                table.by_silence.push_back((heard, id));
                continue;
            }
            return self.forget(table, id);
        }
    }

    /// Marks a session as proven. Returns whether it was not before.
    fn prove(&self, session: &Session) -> bool {
        let first = !std::mem::replace(&mut lock(&session.inner).proven, true);
        if first {
            self.unconfirmed.remove(session.origin, session.identity);
        }
        first
    }

    /// Returns the session with this id.
    pub fn get(&self, id: SessionId) -> Option<Arc<Session>> {
        lock(&self.table).all.get(&id).cloned()
    }

    /// Notes a request in `session`. A minion that was present and fell silent is back with it.
    pub fn heard(&self, session: &Session) -> Heard {
        session.heard.store(self.time.now(), Ordering::Relaxed);
        let is_first = self.prove(session);
        let was_lost = {
            let mut inner = lock(&session.inner);
            let is_accepted = inner.state == SessionState::Accepted;
            if is_accepted {
                inner.cut = None;
            }
            is_accepted && inner.lost
        };
        Heard {
            is_first,
            is_back: was_lost && self.take_back(session),
        }
    }

    /// Counts the minion of a session that was lost as present again. Returns false when another session has
    /// taken its place, or another request was first.
    fn take_back(&self, session: &Session) -> bool {
        let Principal::Minion(id) = &session.principal else {
            return false;
        };
        let mut table = lock(&self.table);
        // Under the table's lock, under which the lost are counted.
        let is_seated = table.minions.get(id).is_some_and(|s| s.id == session.id);
        if !is_seated || !std::mem::take(&mut lock(&session.inner).lost) {
            return false;
        }
        table.lost -= 1;
        table.arrived.insert(id.clone());
        true
    }

    /// Accepts `session`, whose key was accepted while it polled.
    pub fn accept(&self, session: &Arc<Session>) {
        {
            let mut inner = lock(&session.inner);
            if inner.state != SessionState::Unaccepted {
                return;
            }
            inner.state = SessionState::Accepted;
        }
        lock(&self.table).unaccepted.remove(&session.id);
    }

    /// Ends every session of `id` that has another key than `accepted`. Their next requests are refused.
    pub fn end_minion(&self, id: &MinionId, accepted: Option<PublicIdentity>) {
        let mut table = lock(&self.table);
        for (identity, session) in table.by_minion.get(id).cloned().unwrap_or_default() {
            if let Some(session) = table.all.get(&session).cloned()
                && Some(identity) != accepted
            {
                session.end(SessionState::KeyGone);
                table.leave_connection(&session);
            }
        }
        let seated = table.minions.get(id);
        if seated.is_some_and(|seated| Some(seated.identity) != accepted) {
            table.remove_session(id);
        }
        table.forget_departed(id, accepted);
    }

    /// Removes a session.
    pub fn remove(&self, session: &Session) {
        self.forget(&mut lock(&self.table), session.id);
    }

    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        lock(&self.table).all.len()
    }

    /// Whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets sessions that have proven nothing in time or have been idle for too long. Returns
    /// the minions that fell silent since the last sweep.
    pub fn sweep(&self) -> Vec<MinionId> {
        let now = self.time.now();
        let mut table = lock(&self.table);
        let kept = |session: &Session| {
            let silent = now.saturating_sub(session.heard.load(Ordering::Relaxed));
            let (proven, state) = {
                let inner = lock(&session.inner);
                (inner.proven, inner.state)
            };
            let has_ended = matches!(state, SessionState::Replaced | SessionState::KeyGone);
            let kept_for = if !proven {
                UNCONFIRMED_FOR
            } else if has_ended {
                // A peer that still uses it sends a heartbeat in that time, and is told why.
                self.heartbeat * 2
            } else if session.principal.minion().is_none() {
                OPERATOR_IDLE_FOR
            } else {
                IDLE_FOR.max(self.heartbeat * 4)
            };
            Duration::from_millis(silent) <= kept_for
        };
        let forgotten: Vec<_> = table
            .all
            .values()
            .filter(|session| !kept(session))
            .map(|session| session.id)
            .collect();
        for id in forgotten {
            self.forget(&mut table, id);
        }
        let Table {
            unaccepted,
            by_silence,
            ..
        } = &mut *table;
        by_silence.retain(|(_, id)| unaccepted.contains(id));
        self.take_lost(&mut table)
    }
}

#[cfg(test)]
mod tests;
