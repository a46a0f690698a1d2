//! The table of sessions, and its bounds. One lock holds everything that decides about presence; the ciphers of sessions
//! have locks of their own, which are never held together with it.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use saline_channel::PublicIdentity;
use saline_channel::noise::SplitKeys;
use saline_messages::{Lease, MasterTime, MinionId, SessionId, StartId};
use saline_protocol::transport::Clock;
use tokio::sync::Notify;

use super::ListenerKind;
use super::connections::{ConnectionId, Connections};
use super::duplicates::Duplicates;
use super::last_seen::Departed;
use super::running_time::RunningTime;
use super::session::{NewSession, Session, SessionState, lock};
use super::unproven::UnprovenCount;
use crate::authorize::Principal;

/// How long half-open handshakes, and sessions that have not sent a first record, are kept.
pub const UNPROVEN_FOR: Duration = Duration::from_secs(5);
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
/// The largest number of sessions of one key of an API: a program has one at a time, and those that it replaced.
const SESSIONS_PER_API: usize = 16;
/// The number of unaccepted sessions that are held beyond the number of pending keys.
const UNACCEPTED_BESIDE_PENDING: usize = 1024;

/// A session in the table, and what the table knows of its peer's presence.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) session: Arc<Session>,
    /// The time of its last request, in milliseconds since the table was made.
    pub(super) heard: u64,
    /// Whether the handshake was not replayed: a record has opened, or the handshake itself proves it.
    pub(super) proven: bool,
    /// Whether the minion fell silent and was reported lost. The session stays, and the next request
    /// ends the silence.
    pub(super) lost: bool,
    /// The start of the minion; none before its reconciliation is complete.
    pub(super) start: Option<StartId>,
    /// The jobs that the minion may begin without a claim.
    pub(super) lease: Lease,
    /// The connection of its last request.
    pub(super) connection: Option<ConnectionId>,
    /// When that connection ended, in milliseconds of the table's time.
    pub(super) cut: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) all: HashMap<SessionId, Entry>,
    /// The sessions of `all` whose keys were not accepted when they were made.
    unaccepted: HashSet<SessionId>,
    /// The same in about the order of their last request: each with the time of a request that it made,
    /// which may not be its last. Others are left among them for a while.
    by_silence: VecDeque<(u64, SessionId)>,
    /// The sessions of `all` that belong to callers, to users of this machine and to APIs, in the order in which they were made.
    by_program_owner: HashMap<ProgramOwner, Vec<SessionId>>,
    /// The sessions of `all` that belong to minions, in the order in which they were made.
    pub(super) by_minion: HashMap<MinionId, Vec<(PublicIdentity, SessionId)>>,
    /// The sessions of `all` whose minions have reconciled: one for each minion.
    pub(super) minions: HashMap<MinionId, SessionId>,
    /// How many of `minions` fell silent and were reported lost.
    pub(super) lost: usize,
    pub(super) connections: Connections,
    /// The sessions whose connections ended a moment ago, in their order.
    pub(super) cut: VecDeque<(u64, SessionId)>,
    /// The end of the last lease of sessions that ended before it.
    pub(super) ended_leases: HashMap<MinionId, MasterTime>,
    /// The ids that two machines used lately.
    pub(super) duplicates: Duplicates,
    /// The minions whose sessions were forgotten while their keys were accepted, or ended with them.
    pub(super) departed: HashMap<MinionId, Departed>,
    /// The minions that have arrived since this was asked last.
    pub(super) arrived: BTreeSet<MinionId>,
    unproven: UnprovenCount,
}

/// The table of all sessions.
#[derive(Debug)]
pub struct Sessions {
    pub(super) table: Mutex<Table>,
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
    /// The host of an API with this key.
    Api(PublicIdentity),
}

impl ProgramOwner {
    /// Returns the owner and the largest number of its sessions; none for a session that is not bounded in this way.
    fn of(session: &Session) -> Option<(Self, usize)> {
        match &session.principal {
            Principal::Caller(_) => Some((Self::Minion(session.identity), CALLERS_PER_KEY)),
            Principal::LocalUser(user) => Some((Self::User(user.uid), SESSIONS_PER_USER)),
            Principal::Api(_) => Some((Self::Api(session.identity), SESSIONS_PER_API)),
            Principal::Minion(_)
            | Principal::LocalRoot
            | Principal::MasterUser
            | Principal::Schedule(_)
            | Principal::Reaction(_)
            | Principal::ExternalUser(_)
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
    /// The minion was present with another session.
    Replaced {
        /// That session, which has ended now.
        old: Arc<Session>,
        /// Whether it belonged to another start of the minion.
        other_start: bool,
    },
}

impl Table {
    /// Returns the entry of the session that a minion has reconciled in.
    pub(super) fn of_minion(&self, id: &MinionId) -> Option<&Entry> {
        self.all.get(self.minions.get(id)?)
    }

    /// Whether this is the session that its minion has reconciled in.
    pub(super) fn is_seated(&self, id: &MinionId, session: &Session) -> bool {
        self.minions.get(id) == Some(&session.id)
    }

    /// Ends a session: its next request is refused with this reason.
    pub(super) fn end(&mut self, session: &Session, why: SessionState) {
        session.set_state(self, why);
        if let Some(entry) = self.all.get_mut(&session.id) {
            entry.lease = Lease::default();
        }
        self.leave_connection(session);
    }

    /// Lets a minion be absent.
    fn unseat(&mut self, minion: &MinionId) {
        let Some(entry) = self.minions.remove(minion).and_then(|id| self.all.get(&id)) else {
            return;
        };
        if entry.lost {
            self.lost -= 1;
        }
        if entry.session.state() == SessionState::Accepted {
            self.departed.insert(minion.clone(), Departed::of(entry));
        }
    }

    /// Removes a session from every index.
    fn forget(&mut self, id: SessionId) {
        self.unaccepted.remove(&id);
        let Some(session) = self.all.get(&id).map(|entry| Arc::clone(&entry.session)) else {
            return;
        };
        if let Some((owner, _)) = ProgramOwner::of(&session)
            && let Some(own) = self.by_program_owner.get_mut(&owner)
        {
            own.retain(|other| *other != id);
            if own.is_empty() {
                self.by_program_owner.remove(&owner);
            }
        }
        if let Principal::Minion(minion) = &session.principal {
            if let Some(own) = self.by_minion.get_mut(minion) {
                own.retain(|(_, other)| *other != id);
                if own.is_empty() {
                    self.by_minion.remove(minion);
                }
            }
            if self.is_seated(minion, &session) {
                self.unseat(minion);
            }
        }
        self.leave_connection(&session);
        self.prove(id);
        self.all.remove(&id);
    }

    /// Forgets the unaccepted session that has been silent longest. A stranger decides how often this is
    /// called: each step that goes on to the next session was paid for by a request of that one.
    fn forget_most_silent(&mut self) {
        while let Some((known, id)) = self.by_silence.pop_front() {
            if !self.unaccepted.contains(&id) {
                continue;
            }
            let heard = self.all.get(&id).map_or(0, |entry| entry.heard);
            if heard > known {
                self.by_silence.push_back((heard, id));
                continue;
            }
            return self.forget(id);
        }
    }

    /// Marks a session as proven. Returns whether it was not before.
    fn prove(&mut self, id: SessionId) -> bool {
        let Some(entry) = self.all.get_mut(&id) else {
            return false;
        };
        let first = !std::mem::replace(&mut entry.proven, true);
        if first {
            let session = &entry.session;
            self.unproven
                .remove(session.listener_kind, session.identity);
        }
        first
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

    /// Whether one more session from listeners of this kind that has proven nothing can be held.
    pub fn has_room(&self, kind: ListenerKind) -> bool {
        lock(&self.table).unproven.has_room(kind)
    }

    /// Adds a session. It replaces no other session before its first record. When there are too
    /// many unaccepted sessions, the one that has been silent longest is forgotten. Returns none when too
    /// many sessions from listeners of its kind, or of its key, have proven nothing.
    pub fn add(&self, new: NewSession, keys: &SplitKeys) -> Option<Arc<Session>> {
        let proven = new.proven;
        let session = Arc::new(Session::new(new, keys));
        let (id, identity, heard) = (session.id, session.identity, self.time.now());
        let table = &mut *lock(&self.table);
        if !proven && !table.unproven.add(session.listener_kind, identity) {
            return None;
        }
        if session.state() == SessionState::Unaccepted {
            if table.unaccepted.len() >= self.unaccepted.load(Ordering::Relaxed) {
                table.forget_most_silent();
            }
            table.unaccepted.insert(id);
            table.by_silence.push_back((heard, id));
        }
        let entry = Entry {
            session: Arc::clone(&session),
            heard,
            proven,
            lost: false,
            start: None,
            lease: Lease::default(),
            connection: None,
            cut: None,
        };
        table.all.insert(id, entry);
        if let Some((owner, most)) = ProgramOwner::of(&session) {
            let own = table.by_program_owner.entry(owner).or_default();
            own.push(id);
            if own.len() > most {
                let oldest = own[0];
                table.forget(oldest);
            }
        }
        if let Principal::Minion(minion) = &session.principal {
            let seated = table.minions.get(minion).copied();
            let own = table.by_minion.entry(minion.clone()).or_default();
            own.push((identity, id));
            let same = own.iter().filter(|(key, _)| *key == identity);
            let same: Vec<SessionId> = same.map(|(_, session)| *session).collect();
            if same.len() > PER_KEY {
                // Neither this one nor the one that counts: the oldest that has proven nothing, or the oldest.
                let mut others = same.iter().filter(|o| **o != id && Some(**o) != seated);
                let is_unproven =
                    |other: &&SessionId| table.all.get(*other).is_some_and(|other| !other.proven);
                let oldest = others.clone().next();
                if let Some(excess) = others.find(is_unproven).or(oldest).copied() {
                    table.forget(excess);
                }
            }
        }
        Some(session)
    }

    /// Returns the session with this id.
    pub fn get(&self, id: SessionId) -> Option<Arc<Session>> {
        let table = lock(&self.table);
        table.all.get(&id).map(|entry| Arc::clone(&entry.session))
    }

    /// Notes a request in `session`. A minion that was present and fell silent is back with it.
    pub fn heard(&self, session: &Session) -> Heard {
        let now = self.time.now();
        let table = &mut *lock(&self.table);
        let is_first = table.prove(session.id);
        let is_accepted = session.state() == SessionState::Accepted;
        if let Some(entry) = table.all.get_mut(&session.id) {
            entry.heard = now;
            if is_accepted {
                entry.cut = None;
            }
        }
        session.spoke.notify_waiters();
        let is_back = is_accepted && table.note_back(session);
        Heard { is_first, is_back }
    }

    /// Accepts `session`, whose key was accepted while it polled.
    pub fn accept(&self, session: &Session) {
        let mut table = lock(&self.table);
        if session.state() == SessionState::Unaccepted {
            session.set_state(&mut table, SessionState::Accepted);
            table.unaccepted.remove(&session.id);
        }
    }

    /// Ends every session of `id` that has another key than `accepted`. Their next requests are refused.
    pub fn end_minion(&self, id: &MinionId, accepted: Option<PublicIdentity>) {
        let mut table = lock(&self.table);
        for (identity, session) in table.by_minion.get(id).cloned().unwrap_or_default() {
            if Some(identity) != accepted
                && let Some(entry) = table.all.get(&session)
            {
                let session = Arc::clone(&entry.session);
                let departed = Departed::of(entry);
                let has_reconciled = table.is_seated(id, &session);
                table.end(&session, SessionState::KeyGone);
                if has_reconciled {
                    table.departed.insert(id.clone(), departed);
                }
            }
        }
        let seated = table.of_minion(id);
        if seated.is_some_and(|seated| Some(seated.session.identity) != accepted) {
            table.unseat(id);
        }
        table.revoke_departed(id, accepted);
    }

    /// Removes a session.
    pub fn remove(&self, session: &Session) {
        lock(&self.table).forget(session.id);
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
        let kept = |entry: &Entry| {
            let silent = now.saturating_sub(entry.heard);
            let (session, state) = (&entry.session, entry.session.state());
            let has_ended = matches!(state, SessionState::Replaced | SessionState::KeyGone);
            let kept_for = if !entry.proven {
                UNPROVEN_FOR
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
            .filter(|entry| !kept(entry))
            .map(|entry| entry.session.id)
            .collect();
        for id in forgotten {
            table.forget(id);
        }
        let Table {
            unaccepted,
            by_silence,
            ..
        } = &mut *table;
        by_silence.retain(|(_, id)| unaccepted.contains(id));
        table.forget_revoked(now);
        self.take_lost(&mut table)
    }
}

#[cfg(test)]
mod tests;
