//! Presence: the minions that are present, their sessions, and the leases that they were granted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use saline_messages::{
    Lease, MasterTime, MinionId, MustClaim, PeerVersion, ProtocolVersions, SOFTWARE, StartId,
};
use saline_protocol::transport::{Clock, Instant};

use super::session::{Session, SessionState, lock};
use super::table::{PresenceChange, Sessions, Table};
use crate::authorize::Principal;

/// How long a minion whose connection has ended may take to come back before it counts as gone, in
/// milliseconds.
const CUT_GRACE: u64 = 1_000;

/// How long two machines with one id are remembered, in milliseconds. One whose session was replaced asks
/// again every minute.
const DUPLICATE_KNOWN: u64 = 15 * 60 * 1000;

/// How often two machines with one id are reported, in milliseconds.
const DUPLICATE_REPORTED: u64 = 60 * 1000;

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

/// Two machines that use one id, or a machine and a copy of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The addresses that they were seen at, the older first.
    pub addresses: Vec<String>,
    /// When they were seen last, and when that was reported, by the table's time.
    seen: u64,
    reported: Option<u64>,
}

/// The start of a minion whose session becomes present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinionStart {
    /// The id of this start of the minion.
    pub start: StartId,
    /// Whether the start before it ended surely: it ran in the same place.
    pub predecessor_ended: bool,
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
        let mut table = lock(&self.table);
        // Checked under the table's lock, which `end_minion` holds too.
        {
            let mut inner = lock(&session.inner);
            if inner.state != SessionState::Accepted {
                return PresenceChange::None;
            }
            inner.start = Some(start.start);
        }
        table.departed.remove(id);
        match table.minions.insert(id.clone(), Arc::clone(session)) {
            Some(old) if old.id != session.id => {
                let (same, lease, was_gone) = {
                    let inner = lock(&old.inner);
                    (inner.start == Some(start.start), inner.lease, inner.lost)
                };
                if was_gone {
                    table.lost -= 1;
                    table.arrived.insert(id.clone());
                }
                // The process of the old session may live, and use its lease: it must ask from now on.
                if !same && !start.predecessor_ended && lease.until > 0 {
                    table.ended_leases.insert(id.clone(), lease.until);
                }
                if old.state() == SessionState::Accepted {
                    old.end(SessionState::Replaced);
                }
                table.leave_connection(&old);
                PresenceChange::Replaced(old)
            }
            Some(_) => PresenceChange::None,
            None => {
                table.arrived.insert(id.clone());
                PresenceChange::Arrived
            }
        }
    }

    /// Whether another start of the minion than this one is present, and may live beside it.
    pub fn lives_beside(&self, id: &MinionId, start: MinionStart) -> bool {
        !start.predecessor_ended
            && self
                .alive(id)
                .is_some_and(|session| session.start() != Some(start.start))
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
        let silent = table.minions.iter().filter(|(_, s)| !self.is_alive(s));
        let lost: Vec<_> = silent
            .filter(|(_, session)| !std::mem::replace(&mut lock(&session.inner).lost, true))
            .map(|(id, _)| id.clone())
            .collect();
        table.lost += lost.len();
        lost
    }

    /// Returns the minions that have arrived since the last call.
    pub fn take_arrived(&self) -> Vec<MinionId> {
        let arrived = std::mem::take(&mut lock(&self.table).arrived);
        arrived
            .into_iter()
            .filter(|id| self.alive(id).is_some())
            .collect()
    }

    fn is_alive(&self, session: &Session) -> bool {
        #[cfg(feature = "chaos")]
        if saline_daemon::sabotage::is_on("lie-presence") {
            return true;
        }
        let now = self.time.now();
        let cut = lock(&session.inner).cut;
        let silent = now.saturating_sub(session.heard.load(Ordering::Relaxed));
        u128::from(silent) <= 2 * self.heartbeat.as_millis()
            && cut.is_none_or(|at| now.saturating_sub(at) < CUT_GRACE)
    }

    /// Returns the session of a minion that is present: it spoke within two heartbeats, and its
    /// connection stands or ended a moment ago.
    pub fn alive(&self, id: &MinionId) -> Option<Arc<Session>> {
        let session = lock(&self.table).minions.get(id).cloned()?;
        self.is_alive(&session).then_some(session)
    }

    /// Returns the sessions of all minions that are present.
    pub fn all_alive(&self) -> Vec<Arc<Session>> {
        let table = lock(&self.table);
        let alive = table.minions.values().filter(|s| self.is_alive(s));
        alive.cloned().collect()
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
        let table = lock(&self.table);
        let here = table.minions.values().filter(|s| self.is_alive(s));
        here.count()
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
        let mut inner = lock(&session.inner);
        if inner.state != SessionState::Accepted || inner.start.is_none() {
            return Lease::default();
        }
        if inner.lease.until < now {
            inner.lease.after = now;
        }
        inner.lease.until = now.saturating_add(heartbeat.saturating_mul(2));
        inner.lease
    }

    /// Whether a job that is created then is offered to the minion: it is present, or its session has a
    /// lease for it and its connection has not ended.
    pub fn is_offered(&self, id: &MinionId, created: MasterTime) -> bool {
        let Some(session) = lock(&self.table).minions.get(id).cloned() else {
            return false;
        };
        let (cut, lease) = {
            let inner = lock(&session.inner);
            (inner.cut.is_some(), inner.lease)
        };
        self.is_alive(&session) || (!cut && lease.covers(created))
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
        let mut named: Vec<MinionId> = ended.map(|(id, _)| id.clone()).collect();
        for id in not_offered {
            let leased = |session: &Arc<Session>| lock(&session.inner).lease.until >= created;
            if table.minions.get(id).is_some_and(leased) && !named.contains(id) {
                named.push(id.clone());
            }
        }
        MustClaim::of(named)
    }

    /// Forgets leases that ended before `now`.
    pub fn forget_leases(&self, now: MasterTime) {
        lock(&self.table)
            .ended_leases
            .retain(|_, until| *until >= now);
    }

    /// Notes that two machines use one id. Returns whether that is to be reported.
    pub fn note_duplicate(&self, id: &MinionId, addresses: [String; 2]) -> bool {
        let now = self.time.now();
        let mut table = lock(&self.table);
        table
            .duplicates
            .retain(|_, known| now.saturating_sub(known.seen) < DUPLICATE_KNOWN);
        let known = table.duplicates.entry(id.clone()).or_insert(Duplicate {
            addresses: Vec::new(),
            seen: now,
            reported: None,
        });
        known.seen = now;
        // Each of the two comes back with another port whenever the other one has taken its session.
        known.addresses.retain(|known| {
            addresses.contains(known) || addresses.iter().all(|new| host(new) != host(known))
        });
        for address in addresses {
            if !known.addresses.contains(&address) && known.addresses.len() < 8 {
                known.addresses.push(address);
            }
        }
        let due = known
            .reported
            .is_none_or(|last| now.saturating_sub(last) >= DUPLICATE_REPORTED);
        if due {
            known.reported = Some(now);
        }
        due
    }

    /// Returns the ids that two machines used lately, and their addresses.
    pub fn duplicates(&self) -> Vec<(MinionId, Vec<String>)> {
        let now = self.time.now();
        let table = lock(&self.table);
        let known = table.duplicates.iter();
        let late = known.filter(|(_, known)| now.saturating_sub(known.seen) < DUPLICATE_KNOWN);
        let mut found: Vec<_> = late
            .map(|(id, known)| (id.clone(), known.addresses.clone()))
            .collect();
        found.sort();
        found
    }

    /// Returns the session that a minion's requests belong to, whether or not it is present.
    pub fn seated(&self, id: &MinionId) -> Option<Arc<Session>> {
        lock(&self.table).minions.get(id).cloned()
    }

    /// Notes that the master runs. Returns how long it stood still: then everybody gets a heartbeat's time
    /// to speak.
    pub fn tick(&self) -> Option<Duration> {
        self.time.tick()
    }
}

/// Returns an address without its port.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}
