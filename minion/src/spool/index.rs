//! What the spool holds, in memory.

use std::collections::{BTreeMap, BTreeSet};

use saline_protocol::message::{Jid, MasterTime, Return};

/// Jobs that are remembered after their return was acknowledged. Of older ones only the last jid is.
const MOST_SEEN: usize = 10_000;

/// How long after its expiry a job is remembered, in milliseconds: clocks need not agree.
const MARGIN: MasterTime = 600_000;

/// Returns that are held in memory beside the file, so that a small one is sent without reading.
const CACHED_BYTES: usize = 1024 * 1024;

/// A part of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub length: u64,
}

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Begun; its record lies there.
    Running(Place),
    /// It returned; the return lies in the file, perhaps also here.
    Spooled(Place, Option<Return>),
    /// It returned, and the file could not take it.
    Unspooled(Return),
    /// Its return is acknowledged.
    Done,
}

/// One job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Until when it may come again.
    pub expires: MasterTime,
    /// Where it stands.
    pub state: State,
}

/// What the spool holds.
#[derive(Debug, Default)]
pub struct Index {
    /// By jid, so the oldest first.
    pub entries: BTreeMap<Jid, Entry>,
    /// Every job up to this one counts as seen.
    pub floor: Option<Jid>,
    unsent: BTreeSet<Jid>,
    cached: usize,
}

impl Index {
    /// Whether the job has been here.
    pub fn is_seen(&self, jid: &Jid) -> bool {
        self.entries.contains_key(jid) || self.floor.as_ref().is_some_and(|floor| jid <= floor)
    }

    /// The job stands there now.
    pub fn set(&mut self, jid: &Jid, expires: Option<MasterTime>, state: State) {
        self.uncache(jid);
        if let State::Spooled(_, Some(cached)) = &state {
            self.cached += cached.payload.as_bytes().len();
        }
        match &state {
            State::Spooled(..) | State::Unspooled(_) => {
                self.unsent.insert(jid.clone());
            }
            State::Running(_) | State::Done => {
                self.unsent.remove(jid);
            }
        }
        match self.entries.get_mut(jid) {
            Some(entry) => {
                entry.state = state;
                entry.expires = expires.unwrap_or(entry.expires);
            }
            None => {
                let expires = expires.unwrap_or_default();
                self.entries.insert(jid.clone(), Entry { expires, state });
            }
        }
    }

    /// Whether a return of that size is held in memory too.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.cached + bytes <= CACHED_BYTES
    }

    fn uncache(&mut self, jid: &Jid) {
        if let Some(entry) = self.entries.get_mut(jid)
            && let State::Spooled(_, cached) = &mut entry.state
            && let Some(cached) = cached.take()
        {
            self.cached = self.cached.saturating_sub(cached.payload.as_bytes().len());
        }
    }

    /// Takes the oldest job whose return is to be sent.
    pub fn take_unsent(&mut self) -> Option<Jid> {
        self.unsent.pop_first()
    }

    /// Its return was not acknowledged: to be sent again.
    pub fn put_back(&mut self, jid: &Jid) {
        let returned =
            |entry: &Entry| matches!(entry.state, State::Spooled(..) | State::Unspooled(_));
        if self.entries.get(jid).is_some_and(returned) {
            self.unsent.insert(jid.clone());
        }
    }

    /// How many jobs returned without an acknowledgement.
    pub fn unacknowledged(&self) -> usize {
        let returned =
            |entry: &&Entry| matches!(entry.state, State::Spooled(..) | State::Unspooled(_));
        self.entries.values().filter(returned).count()
    }

    /// Forgets jobs that are done and cannot come again, and the oldest ones when there are too many.
    pub fn prune(&mut self, now: Option<MasterTime>) {
        if let Some(now) = now {
            self.entries.retain(|_, entry| {
                entry.state != State::Done || entry.expires.saturating_add(MARGIN) >= now
            });
        }
        while self.entries.len() > MOST_SEEN {
            let oldest = self
                .entries
                .iter()
                .find(|(_, entry)| entry.state == State::Done)
                .map(|(jid, _)| jid.clone());
            let Some(oldest) = oldest else { break };
            self.entries.remove(&oldest);
            self.floor = self.floor.take().max(Some(oldest));
        }
    }
}
