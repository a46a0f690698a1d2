//! The index of the spool, in memory.

use std::collections::{BTreeMap, BTreeSet};

use saline_protocol::message::{Jid, MasterTime, Return};

/// The largest number of jobs that are remembered after their return was acknowledged. Of older
/// ones only the last jid is kept.
const MOST_SEEN: usize = 10_000;

/// How long a job is remembered after its expiry, in milliseconds, since clocks may differ.
const MARGIN: MasterTime = 600_000;

/// The bytes of returns that are cached in memory, so that small returns are sent without reading
/// the file.
const CACHED_BYTES: usize = 1024 * 1024;

/// A range of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRange {
    /// The beginning of the range.
    pub offset: u64,
    /// The length of the range.
    pub length: u64,
}

/// The state of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The job was begun; its record is in this range.
    Running(FileRange),
    /// The job returned; the return is in this range, and perhaps cached.
    Spooled(FileRange, Option<Return>),
    /// The job returned, and the disk did not take the return.
    Unspooled(Return),
    /// The return is acknowledged.
    Done,
}

/// A job in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The time until which the job may come again.
    pub expires: MasterTime,
    /// The job's state.
    pub state: State,
}

/// The index of the spool.
#[derive(Debug, Default)]
pub struct Index {
    /// The jobs by jid, so the oldest first.
    pub entries: BTreeMap<Jid, Entry>,
    /// Every job up to this one counts as seen.
    pub floor: Option<Jid>,
    unsent: BTreeSet<Jid>,
    cached: usize,
}

impl Index {
    /// Whether the job was begun before.
    pub fn is_seen(&self, jid: &Jid) -> bool {
        self.entries.contains_key(jid) || self.floor.as_ref().is_some_and(|floor| jid <= floor)
    }

    /// Sets the state of a job.
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

    /// Whether a return of this size fits the cache.
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

    /// Marks a return to be sent again.
    pub fn put_back(&mut self, jid: &Jid) {
        let returned =
            |entry: &Entry| matches!(entry.state, State::Spooled(..) | State::Unspooled(_));
        if self.entries.get(jid).is_some_and(returned) {
            self.unsent.insert(jid.clone());
        }
    }

    /// Returns how many returns are not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        let returned =
            |entry: &&Entry| matches!(entry.state, State::Spooled(..) | State::Unspooled(_));
        self.entries.values().filter(returned).count()
    }

    /// Forgets jobs that are done and expired, and the oldest ones when there are too many.
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
