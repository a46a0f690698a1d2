//! The table of sessions, and its bounds.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use saline_protocol::channel::PublicIdentity;
use saline_protocol::channel::noise::SplitKeys;
use saline_protocol::channel::record::ResponderRecords;
use saline_protocol::message::{MinionId, PeerVersion, SessionId};
use saline_protocol::transport::{Clock, Instant};

use super::session::{Inner, OwnNumber, Principal, Session, SessionState, lock};

/// The largest number of half-open handshakes, and of sessions that have not sent a first record.
pub const UNPROVEN: usize = 1024;
/// How long they are kept.
pub const UNPROVEN_FOR: Duration = Duration::from_secs(5);
/// The silence after which a session is forgotten.
const IDLE_FOR: Duration = Duration::from_secs(900);
/// The silence after which an operator's session is forgotten; the command line makes a new one as
/// needed.
const OPERATOR_IDLE_FOR: Duration = Duration::from_secs(60);
/// The largest number of sessions of one id and key: the current one, replaced ones, and a new one.
const PER_KEY: usize = 4;
/// The number of unaccepted sessions that are held beyond the number of pending keys.
const UNACCEPTED_BESIDE_PENDING: usize = 1024;

#[derive(Debug, Default)]
struct Table {
    all: HashMap<SessionId, Arc<Session>>,
    /// Those of `all` whose keys were not accepted when they were made.
    unaccepted: HashSet<SessionId>,
    /// The same in about the order of their last request: each with the time of a request that it made,
    /// which may not be its last. Others are left among them for a while.
    by_silence: VecDeque<(u64, SessionId)>,
    /// Those of `all` that belong to minions, in the order in which they were made.
    by_minion: HashMap<MinionId, Vec<(PublicIdentity, SessionId)>>,
    minions: HashMap<MinionId, Arc<Session>>,
}

/// The table of all sessions.
#[derive(Debug)]
pub struct Sessions {
    table: Mutex<Table>,
    /// The number of sessions that have sent no valid record yet.
    unproven: AtomicUsize,
    clock: Clock,
    started: Instant,
    heartbeat: Duration,
    /// The largest number of unaccepted sessions.
    unaccepted: usize,
}

/// How a session's request changed the presence of its minion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresenceChange {
    /// Not at all.
    None,
    /// The minion was not present before, or had fallen silent.
    Arrived,
    /// The minion was present with another session, which has ended now.
    Replaced,
}

impl Sessions {
    /// Creates an empty table. A minion is present for two heartbeats after its last request, and
    /// about as many unaccepted sessions are held as there may be pending keys.
    pub fn new(clock: Clock, heartbeat: Duration, max_pending_keys: usize) -> Self {
        Self {
            table: Mutex::default(),
            unproven: AtomicUsize::new(0),
            clock,
            started: clock.now(),
            heartbeat,
            unaccepted: max_pending_keys.saturating_add(UNACCEPTED_BESIDE_PENDING),
        }
    }

    fn since_start(&self) -> u64 {
        u64::try_from((self.clock.now() - self.started).as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether one more session that has proven nothing can be held.
    pub fn has_room(&self) -> bool {
        self.unproven.load(Ordering::Relaxed) < UNPROVEN
    }

    /// Adds a session. It replaces no other session before its first record. When there are too
    /// many unaccepted sessions, the one that has been silent longest is forgotten.
    pub fn add(
        &self,
        id: SessionId,
        (principal, version): (Principal, PeerVersion),
        identity: PublicIdentity,
        listener: usize,
        keys: &SplitKeys,
        state: SessionState,
    ) -> Arc<Session> {
        let records = ResponderRecords::new(keys);
        let session = Arc::new(Session {
            id,
            principal,
            version,
            identity,
            listener,
            publications: Arc::clone(&records.publications),
            inner: Mutex::new(Inner {
                records,
                state,
                proven: false,
                lost: false,
                running: Vec::new(),
                own: OwnNumber::default(),
            }),
            heard: AtomicU64::new(self.since_start()),
        });
        self.unproven.fetch_add(1, Ordering::Relaxed);
        let mut table = lock(&self.table);
        if state == SessionState::Unaccepted {
            if table.unaccepted.len() >= self.unaccepted {
                self.forget_most_silent(&mut table);
            }
            table.unaccepted.insert(id);
            let heard = session.heard.load(Ordering::Relaxed);
            table.by_silence.push_back((heard, id));
        }
        table.all.insert(id, Arc::clone(&session));
        if let Principal::Minion(minion) = &session.principal {
            let seated = table.minions.get(minion).map(|seated| seated.id);
            let own = table.by_minion.entry(minion.clone()).or_default();
            own.push((identity, id));
            let same: Vec<_> = own.iter().filter(|(key, _)| *key == identity).collect();
            let excess = (same.len() > PER_KEY)
                .then(|| same.iter().find(|(_, other)| Some(*other) != seated))
                .flatten()
                .map(|(_, other)| *other);
            if let Some(excess) = excess {
                self.forget(&mut table, excess);
            }
        }
        session
    }

    /// Removes a session from the table and from every index.
    fn forget(&self, table: &mut Table, id: SessionId) {
        table.unaccepted.remove(&id);
        let Some(session) = table.all.remove(&id) else {
            return;
        };
        if let Principal::Minion(minion) = &session.principal {
            if let Some(own) = table.by_minion.get_mut(minion) {
                own.retain(|(_, other)| *other != id);
                if own.is_empty() {
                    table.by_minion.remove(minion);
                }
            }
            if table.minions.get(minion).is_some_and(|s| s.id == id) {
                table.minions.remove(minion);
            }
        }
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
            self.unproven.fetch_sub(1, Ordering::Relaxed);
        }
        first
    }

    /// Returns the session with this id.
    pub fn get(&self, id: SessionId) -> Option<Arc<Session>> {
        lock(&self.table).all.get(&id).cloned()
    }

    /// Notes a request in `session`. The first request of an accepted session makes it its minion's
    /// session.
    pub fn heard(&self, session: &Arc<Session>) -> PresenceChange {
        session.heard.store(self.since_start(), Ordering::Relaxed);
        let first = self.prove(session);
        let back = {
            let mut inner = lock(&session.inner);
            if inner.state != SessionState::Accepted {
                return PresenceChange::None;
            }
            std::mem::take(&mut inner.lost)
        };
        if first {
            self.seat(session)
        } else if back {
            PresenceChange::Arrived
        } else {
            PresenceChange::None
        }
    }

    /// Accepts `session`, whose key was accepted while it polled.
    pub fn accept(&self, session: &Arc<Session>) -> PresenceChange {
        {
            let mut inner = lock(&session.inner);
            if inner.state != SessionState::Unaccepted {
                return PresenceChange::None;
            }
            inner.state = SessionState::Accepted;
        }
        lock(&self.table).unaccepted.remove(&session.id);
        self.seat(session)
    }

    fn seat(&self, session: &Arc<Session>) -> PresenceChange {
        let Principal::Minion(id) = &session.principal else {
            return PresenceChange::None;
        };
        let mut table = lock(&self.table);
        // Checked under the table's lock, which `end_minion` holds too.
        if session.state() != SessionState::Accepted {
            return PresenceChange::None;
        }
        match table.minions.insert(id.clone(), Arc::clone(session)) {
            Some(old) if old.id != session.id => {
                if old.state() == SessionState::Accepted {
                    old.end(SessionState::Replaced);
                }
                PresenceChange::Replaced
            }
            _ => PresenceChange::Arrived,
        }
    }

    /// Ends every session of `id` because its key is gone. Their next requests are refused.
    pub fn end_minion(&self, id: &MinionId) {
        let mut table = lock(&self.table);
        for (_, session) in table.by_minion.get(id).into_iter().flatten() {
            if let Some(session) = table.all.get(session) {
                session.end(SessionState::KeyGone);
            }
        }
        table.minions.remove(id);
    }

    /// Removes a session.
    pub fn remove(&self, session: &Session) {
        self.forget(&mut lock(&self.table), session.id);
    }

    fn is_alive(&self, session: &Session) -> bool {
        let silent = self
            .since_start()
            .saturating_sub(session.heard.load(Ordering::Relaxed));
        u128::from(silent) <= 2 * self.heartbeat.as_millis()
    }

    /// Returns the session of a minion, if it sent a request within two heartbeats.
    pub fn alive(&self, id: &MinionId) -> Option<Arc<Session>> {
        let session = lock(&self.table).minions.get(id).cloned()?;
        self.is_alive(&session).then_some(session)
    }

    /// Returns the sessions of all minions that sent a request within two heartbeats.
    pub fn all_alive(&self) -> Vec<Arc<Session>> {
        let table = lock(&self.table);
        let alive = table.minions.values().filter(|s| self.is_alive(s));
        alive.cloned().collect()
    }

    /// Returns the number of present minions.
    pub fn minions(&self) -> usize {
        let table = lock(&self.table);
        let here = table.minions.values().filter(|s| self.is_alive(s));
        here.count()
    }

    /// Whether at least `most` minions are present.
    pub fn has_minions(&self, most: usize) -> bool {
        // They are counted only when there could be so many: each login asks.
        lock(&self.table).minions.len() >= most && self.minions() >= most
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
        let now = self.since_start();
        let mut table = lock(&self.table);
        let kept = |session: &Session| {
            let silent = now.saturating_sub(session.heard.load(Ordering::Relaxed));
            let (proven, state) = {
                let inner = lock(&session.inner);
                (inner.proven, inner.state)
            };
            let has_ended = matches!(state, SessionState::Replaced | SessionState::KeyGone);
            let kept_for = if !proven {
                UNPROVEN_FOR
            } else if has_ended {
                // A peer that still uses it sends a heartbeat in that time, and is told why.
                self.heartbeat * 2
            } else if matches!(session.principal, Principal::Operator(_)) {
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
        let silent = table.minions.iter().filter(|(_, s)| !self.is_alive(s));
        silent
            .filter(|(_, session)| !std::mem::replace(&mut lock(&session.inner).lost, true))
            .map(|(id, _)| id.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests;
