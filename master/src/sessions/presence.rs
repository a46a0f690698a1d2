//! Presence: the minions that are present, their sessions, and the leases that they were granted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use saline_messages::{
    CLAIMS_NAMED, Lease, MasterTime, MinionFunctions, MinionId, MustClaim, PeerVersion,
    ProtocolVersions, SOFTWARE, StartId,
};
use saline_protocol::transport::{Clock, Instant};

use super::session::{Session, SessionState, lock};
use super::table::{Entry, PresenceChange, Sessions, Table};
use crate::authorize::Principal;

/// How long a minion whose connection has ended may take to come back before it counts as gone, in
/// milliseconds.
const CUT_GRACE: u64 = 1_000;

/// The versions of a master and of the minions that are present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetVersions {
    /// The version of the master's software.
    pub software: String,
    /// The protocol versions that the master speaks.
    pub versions: ProtocolVersions,
    /// Each minion, in the order of the ids.
    pub minions: Vec<(MinionId, PeerVersion)>,
}

/// The start of a minion whose session becomes present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinionStart {
    /// The id of this start of the minion.
    pub start: StartId,
    /// Whether the start before it ended surely: it ran in the same place.
    pub predecessor_ended: bool,
}

impl Table {
    /// Notes that a minion that was reported lost is back, if its session counts.
    pub(super) fn note_back(&mut self, session: &Session) -> bool {
        let Principal::Minion(id) = &session.principal else {
            return false;
        };
        if !self.is_seated(id, session) {
            return false;
        }
        let Some(entry) = self.all.get_mut(&session.id) else {
            return false;
        };
        let was_lost = std::mem::take(&mut entry.lost);
        if was_lost {
            self.lost -= 1;
            self.arrived.insert(id.clone());
        }
        was_lost
    }
}

impl Sessions {
    /// Makes `session` the session of its minion, which has reconciled.
    pub fn seat(&self, session: &Arc<Session>, start: MinionStart) -> PresenceChange {
        let change = self.change_seat(session, start);
        self.arrival.notify_waiters();
        change
    }

    /// Waits until these minions are present, at most until `deadline`.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn wait_for(&self, mut minions: Vec<MinionId>, clock: Clock, deadline: Instant) {
        loop {
            let mut arrival = std::pin::pin!(self.arrival.notified());
            // From here on no arrival is missed.
            arrival.as_mut().enable();
            minions.retain(|id| self.alive(id).is_none());
            if minions.is_empty() || clock.deadline(deadline, arrival).await.is_err() {
                return;
            }
        }
    }

    fn change_seat(&self, session: &Arc<Session>, start: MinionStart) -> PresenceChange {
        let Principal::Minion(id) = &session.principal else {
            return PresenceChange::None;
        };
        let table = &mut *lock(&self.table);
        let Some(entry) = table.all.get_mut(&session.id) else {
            return PresenceChange::None;
        };
        if session.state() != SessionState::Accepted {
            return PresenceChange::None;
        }
        entry.start = Some(start.start);
        table.departed.remove(id);
        let old = table.minions.insert(id.clone(), session.id);
        let Some(old) = old.and_then(|old| table.all.get(&old)) else {
            table.arrived.insert(id.clone());
            return PresenceChange::Arrived;
        };
        if old.session.id == session.id {
            return PresenceChange::None;
        }
        let other_start = old.start != Some(start.start);
        // The process of the old session may live, and use its lease: it must ask from now on.
        if other_start && !start.predecessor_ended && old.lease.until > 0 {
            table.ended_leases.insert(id.clone(), old.lease.until);
        }
        let (old, was_gone) = (Arc::clone(&old.session), old.lost);
        if was_gone {
            table.lost -= 1;
            table.arrived.insert(id.clone());
        }
        if old.state() == SessionState::Accepted {
            table.end(&old, SessionState::Replaced);
        }
        PresenceChange::Replaced { old, other_start }
    }

    /// Whether the minion has reconciled in this session.
    pub fn has_reconciled(&self, session: &Session) -> bool {
        let table = lock(&self.table);
        table
            .all
            .get(&session.id)
            .is_some_and(|entry| entry.start.is_some())
    }

    /// Whether another start of the minion than this one is present, and may live beside it.
    pub fn lives_beside(&self, id: &MinionId, start: MinionStart) -> bool {
        let (now, table) = (self.time.now(), lock(&self.table));
        let present = table
            .of_minion(id)
            .filter(|entry| self.is_alive(entry, now));
        !start.predecessor_ended && present.is_some_and(|entry| entry.start != Some(start.start))
    }

    /// Notes that nobody answers in this session any more: its minion is gone until it speaks again.
    pub fn presume_gone(&self, session: &Session) {
        let ended = self.time.now().saturating_sub(CUT_GRACE);
        if let Some(entry) = lock(&self.table).all.get_mut(&session.id) {
            entry.cut = Some(ended);
        }
    }

    /// Returns the minions whose connections ended a second ago, and that have not come back. Each is told
    /// once.
    pub fn take_cut(&self) -> Vec<MinionId> {
        let now = self.time.now();
        let mut table = lock(&self.table);
        let mut due = false;
        while table
            .cut
            .front()
            .is_some_and(|(at, _)| at + CUT_GRACE <= now)
        {
            table.cut.pop_front();
            due = true;
        }
        match due {
            true => self.take_lost(&mut table),
            false => Vec::new(),
        }
    }

    /// Returns the minions that are gone and were not told as gone.
    pub(super) fn take_lost(&self, table: &mut Table) -> Vec<MinionId> {
        let now = self.time.now();
        let Table { minions, all, .. } = table;
        let mut lost = Vec::new();
        for (id, session) in minions.iter() {
            if let Some(entry) = all.get_mut(session)
                && !self.is_alive(entry, now)
                && !std::mem::replace(&mut entry.lost, true)
            {
                lost.push(id.clone());
            }
        }
        table.lost += lost.len();
        lost
    }

    /// Returns the minions that have arrived since the last call.
    pub fn take_arrived(&self) -> Vec<MinionId> {
        let (now, mut table) = (self.time.now(), lock(&self.table));
        let mut arrived = std::mem::take(&mut table.arrived);
        arrived.retain(|id| {
            table
                .of_minion(id)
                .is_some_and(|entry| self.is_alive(entry, now))
        });
        arrived.into_iter().collect()
    }

    /// Whether the minion of a session is present, where `now` is the [running time](super::running_time).
    pub(super) fn is_alive(&self, entry: &Entry, now: u64) -> bool {
        #[cfg(feature = "chaos")]
        if saline_daemon::sabotage::is_on("lie-presence") {
            return true;
        }
        let silent = now.saturating_sub(entry.heard);
        u128::from(silent) <= 2 * self.heartbeat.as_millis()
            && entry
                .cut
                .is_none_or(|at| now.saturating_sub(at) < CUT_GRACE)
    }

    /// Returns the entries of the minions that are present.
    fn present<'t>(&'t self, table: &'t Table) -> impl Iterator<Item = &'t Entry> {
        let now = self.time.now();
        let seated = table.minions.values();
        let entries = seated.filter_map(|session| table.all.get(session));
        entries.filter(move |entry| self.is_alive(entry, now))
    }

    /// Returns the session of a minion that is present: it spoke within two heartbeats, and its
    /// connection stands or ended a moment ago.
    pub fn alive(&self, id: &MinionId) -> Option<Arc<Session>> {
        let (now, table) = (self.time.now(), lock(&self.table));
        let present = table
            .of_minion(id)
            .filter(|entry| self.is_alive(entry, now));
        present.map(|entry| Arc::clone(&entry.session))
    }

    /// Returns the sessions of all minions that are present.
    pub fn all_alive(&self) -> Vec<Arc<Session>> {
        let table = lock(&self.table);
        let alive = self.present(&table);
        alive.map(|entry| Arc::clone(&entry.session)).collect()
    }

    /// Returns the versions of this master, which speaks `ours`, and of the minions that are present, by id.
    pub fn fleet_versions(&self, ours: ProtocolVersions) -> FleetVersions {
        let sessions = self.all_alive();
        let mut minions: Vec<_> = sessions
            .iter()
            .filter_map(|session| {
                Some((session.principal.minion()?.clone(), session.version.clone()))
            })
            .collect();
        minions.sort_by(|a, b| a.0.cmp(&b.0));
        FleetVersions {
            software: SOFTWARE.to_owned(),
            versions: ours,
            minions,
        }
    }

    /// Returns the number of present minions.
    pub fn minions(&self) -> usize {
        self.present(&lock(&self.table)).count()
    }

    /// Returns the number of minions that have reconciled and were not reported as gone: present minions, and
    /// those that fell silent less than a second ago. Cheap, because each login asks.
    pub fn counted_minions(&self) -> usize {
        let table = lock(&self.table);
        table.minions.len() - table.lost
    }

    /// Grants the session of a present minion a lease from `now` on, or prolongs the one that it has.
    /// Returns none for a session that is not its minion's.
    pub fn grant_lease(&self, session: &Session, now: MasterTime) -> Lease {
        let heartbeat = u64::try_from(self.heartbeat.as_millis()).unwrap_or(u64::MAX);
        let mut table = lock(&self.table);
        match table.all.get_mut(&session.id) {
            Some(entry) if session.state() == SessionState::Accepted && entry.start.is_some() => {
                if entry.lease.until < now {
                    entry.lease.after = now;
                }
                entry.lease.until = now.saturating_add(heartbeat.saturating_mul(2));
                entry.lease
            }
            _ => Lease::default(),
        }
    }

    /// Whether a job that is created then is offered to the minion: it is present, or its session has a
    /// lease for it and its connection has not ended.
    pub fn is_offered(&self, id: &MinionId, created: MasterTime) -> bool {
        let (now, table) = (self.time.now(), lock(&self.table));
        table.of_minion(id).is_some_and(|entry| {
            self.is_alive(entry, now) || (entry.cut.is_none() && entry.lease.covers(created))
        })
    }

    /// Returns the functions that the minion reported in its session; none if it has no session, or has not reported them yet.
    pub fn functions(&self, id: &MinionId) -> Option<Arc<MinionFunctions>> {
        let session = lock(&self.table)
            .of_minion(id)
            .map(|entry| Arc::clone(&entry.session));
        session?.functions()
    }

    /// Returns who must claim a job that is created then and offered to these minions: those that may hold
    /// a lease of a session that has ended, or that are not offered the job in spite of one.
    pub fn claims<'a>(
        &self,
        created: MasterTime,
        not_offered: impl Iterator<Item = &'a MinionId>,
    ) -> MustClaim {
        let table = lock(&self.table);
        let ended = table
            .ended_leases
            .iter()
            .filter(|(_, until)| **until >= created);
        let ended = ended.map(|(id, _)| id.clone());
        let leased = |id: &&MinionId| {
            let entry = table.of_minion(id);
            entry.is_some_and(|entry| entry.lease.until >= created)
        };
        let mut named = BTreeSet::new();
        for id in ended.chain(not_offered.filter(leased).cloned()) {
            named.insert(id);
            // More are not named: then everybody claims.
            if named.len() > CLAIMS_NAMED {
                break;
            }
        }
        MustClaim::of(named.into_iter().collect())
    }

    /// Returns the minions whose leases began at this time or later.
    pub fn leased_since(&self, time: MasterTime) -> Vec<MinionId> {
        let table = lock(&self.table);
        let leased = |entry: &&Entry| entry.lease.after >= time && entry.lease.until >= time;
        let entries = table.all.values().filter(leased);
        let ids = entries.filter_map(|entry| match &entry.session.principal {
            Principal::Minion(id) => Some(id.clone()),
            _ => None,
        });
        ids.collect()
    }

    /// Forgets leases that ended before `now`.
    pub fn forget_leases(&self, now: MasterTime) {
        lock(&self.table)
            .ended_leases
            .retain(|_, until| *until >= now);
    }

    /// Returns the session that a minion's requests belong to, whether or not it is present.
    pub fn seated(&self, id: &MinionId) -> Option<Arc<Session>> {
        let table = lock(&self.table);
        table.of_minion(id).map(|entry| Arc::clone(&entry.session))
    }

    /// Notes that the master runs. Returns how long it stood still: then everybody gets a heartbeat's time
    /// to speak.
    pub fn tick(&self) -> Option<Duration> {
        self.time.tick()
    }
}
