//! The index of the spool, in memory.

use std::collections::{BTreeMap, BTreeSet};

use saline_messages::{ExpiryAck, Jid, Known, MasterTime, Return, ScheduledRun};
use saline_modules::job::ScheduledCall;

/// The largest number of jobs that are remembered after their return was acknowledged. Of older
/// ones only the last jid is kept.
const MAX_REMEMBERED: usize = 10_000;

/// How long a job is remembered after its expiry, in milliseconds, since clocks may differ.
const MARGIN: MasterTime = 600_000;

/// The longest time after which a job may be delivered again, in milliseconds, unless a master keeps jobs longer.
pub const LONGEST_EXPIRY: MasterTime = 30 * 24 * 3600 * 1000;

/// The bytes of returns that are cached in memory, so that returns are sent without reading
/// the file.
pub(super) const CACHED_BYTES: usize = 16 * 1024 * 1024;

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
pub enum SpooledJob {
    /// The job was begun; its record is in this range, once it is written.
    Running(Option<FileRange>),
    /// The job returned; the return is in this range, and perhaps cached.
    Spooled(FileRange, Option<Return>),
    /// The job returned, and the disk did not take the return.
    Unspooled(Return),
    /// A master refused the return, which is kept in this range.
    Aside(FileRange),
    /// The return was acknowledged in this session, counted from the start of the process; in none when
    /// it was before.
    Done(Option<u64>),
    /// The job was not begun and never will be.
    Barred,
}

/// A job in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The time until which the job may come again.
    pub expires: MasterTime,
    /// The job's state.
    pub state: SpooledJob,
}

impl Entry {
    /// Whether the spool has nothing more to do about the job.
    fn is_over(&self) -> bool {
        matches!(self.state, SpooledJob::Done(_) | SpooledJob::Barred)
    }
}

/// The index of the spool.
#[derive(Debug, Default)]
pub struct Index {
    /// The jobs by jid, so the oldest first.
    pub entries: BTreeMap<Jid, Entry>,
    /// Every job up to this one counts as seen.
    pub floor: Option<Jid>,
    /// Jobs that expired until then, and were done before this session, may be forgotten.
    pub forgotten: MasterTime,
    /// The latest time of a master at which jobs were forgotten.
    pub forgotten_at: MasterTime,
    /// The number of heartbeats that were noted since the spool was made.
    pub heartbeats_noted: u64,
    /// A session, and the last expiry of the jobs that were acknowledged in it and are forgotten.
    forgotten_in: (u64, MasterTime),
    /// No job that expires until then begins any more: the master was told so.
    settled: MasterTime,
    /// The jobs of the minion's own schedule, which have an entry as well.
    pub scheduled: BTreeMap<Jid, ScheduledCall>,
    /// How many returns of these were dropped.
    pub dropped: u64,
    unsent: BTreeSet<Jid>,
    /// The jobs of the schedule whose returns are to be sent.
    unsent_scheduled: BTreeSet<Jid>,
    cached: usize,
}

impl Index {
    /// Whether the job was begun before, or must not begin.
    pub fn is_seen(&self, jid: &Jid) -> bool {
        self.entries.contains_key(jid) || self.floor.as_ref().is_some_and(|floor| jid <= floor)
    }

    /// Whether a job that expires then must not begin any more.
    pub fn is_settled(&self, expires: MasterTime) -> bool {
        expires <= self.settled
    }

    /// Notes that the master has the minion's acknowledgement up to this expiry, from this start or an earlier one.
    pub fn settle_until(&mut self, until: MasterTime) {
        self.settled = self.settled.max(until);
    }

    /// Begins a session with a master whose time is `now`. It has the minion's acknowledgement of the expiries up to `until`,
    /// which may be lower than was thought: another master, or a restored one. If its time is far below that at which
    /// jobs were forgotten, a master ran with a clock that was ahead: what was concluded from that time is not true of this
    /// one.
    pub fn begin_session(&mut self, until: MasterTime, now: MasterTime) {
        self.settled = until;
        if self.forgotten_at <= now.saturating_add(MARGIN) {
            return;
        }
        self.forgotten = self.forgotten.min(now);
        self.forgotten_in = (0, 0);
        self.forgotten_at = now;
        self.floor = None;
        let latest = now.saturating_add(LONGEST_EXPIRY);
        self.entries
            .retain(|_, entry| !entry.is_over() || entry.expires <= latest);
    }

    /// States which jobs that expire after `after` and until `now` were begun, without those whose returns
    /// were acknowledged in `session`. The ack ends earlier when there are more than `most`. From
    /// now on no job that it is about begins.
    pub fn settle(
        &mut self,
        after: MasterTime,
        now: MasterTime,
        session: u64,
        most: usize,
    ) -> ExpiryAck {
        if self.forgotten_in.0 != session {
            self.forgotten = self.forgotten.max(self.forgotten_in.1);
            self.forgotten_in = (session, 0);
        }
        let after = after.max(self.forgotten);
        if after >= now {
            return ExpiryAck::default();
        }
        let counts = |entry: &Entry| match &entry.state {
            SpooledJob::Barred => false,
            SpooledJob::Done(acknowledged) => *acknowledged != Some(session),
            _ => true,
        };
        let mut begun: Vec<(MasterTime, &Jid)> = self
            .entries
            .iter()
            .filter(|(_, entry)| after < entry.expires && entry.expires <= now && counts(entry))
            .map(|(jid, entry)| (entry.expires, jid))
            .collect();
        let mut until = now;
        if begun.len() > most {
            begun.sort_unstable();
            // All jobs of one expiry, or none.
            until = begun[most].0.saturating_sub(1);
            begun.retain(|(expires, _)| *expires <= until);
        }
        let begun = begun.into_iter().map(|(_, jid)| jid.clone()).collect();
        self.settle_until(until);
        ExpiryAck {
            after,
            until,
            begun,
        }
    }

    /// Returns what is known of a job.
    pub fn known(&self, jid: &Jid) -> Known {
        match self.entries.get(jid).map(|entry| &entry.state) {
            None => Known::No,
            Some(SpooledJob::Running(_)) => Known::Running,
            Some(SpooledJob::Spooled(..) | SpooledJob::Unspooled(_) | SpooledJob::Aside(_)) => {
                Known::Finished
            }
            Some(SpooledJob::Done(_)) => Known::Delivered,
            Some(SpooledJob::Barred) => Known::Barred,
        }
    }

    /// Sets the state of a job.
    pub fn set(&mut self, jid: &Jid, expires: Option<MasterTime>, state: SpooledJob) {
        self.uncache(jid);
        if let SpooledJob::Spooled(_, Some(cached)) = &state {
            self.cached += cached.payload.as_bytes().len();
        }
        let is_unsent = matches!(state, SpooledJob::Spooled(..) | SpooledJob::Unspooled(_));
        let unsent = self.unsent_like(jid);
        if is_unsent {
            unsent.insert(jid.clone());
        } else {
            unsent.remove(jid);
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

    /// Notes that the spool has nothing more to do about a job, whose return was acknowledged in this session, or in none.
    pub fn done(&mut self, jid: &Jid, session: Option<u64>) {
        match self.scheduled.contains_key(jid) {
            true => self.remove(jid),
            false => self.set(jid, None, SpooledJob::Done(session)),
        }
    }

    /// Forgets a job that could not be noted, or one of the minion's own schedule that is done: no master offers it.
    pub fn remove(&mut self, jid: &Jid) {
        self.uncache(jid);
        self.unsent_like(jid).remove(jid);
        self.entries.remove(jid);
        self.scheduled.remove(jid);
    }

    /// Whether a return of this size fits the cache.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.cached + bytes <= CACHED_BYTES
    }

    fn uncache(&mut self, jid: &Jid) {
        if let Some(entry) = self.entries.get_mut(jid)
            && let SpooledJob::Spooled(_, cached) = &mut entry.state
            && let Some(cached) = cached.take()
        {
            self.cached = self.cached.saturating_sub(cached.payload.as_bytes().len());
        }
    }

    /// Returns the set that a job belongs in whose return is to be sent.
    fn unsent_like(&mut self, jid: &Jid) -> &mut BTreeSet<Jid> {
        match self.scheduled.contains_key(jid) {
            true => &mut self.unsent_scheduled,
            false => &mut self.unsent,
        }
    }

    /// Takes the oldest job whose return is to be sent.
    pub fn take_unsent(&mut self) -> Option<Jid> {
        self.unsent.pop_first()
    }

    /// Takes the oldest job of the schedule whose return is to be sent.
    pub fn take_unsent_scheduled(&mut self) -> Option<(Jid, ScheduledRun)> {
        loop {
            let jid = self.unsent_scheduled.pop_first()?;
            if let Some(call) = self.scheduled.get(&jid) {
                return Some((jid, call.run.clone()));
            }
        }
    }

    /// Marks a return to be sent again.
    pub fn put_back(&mut self, jid: &Jid) {
        let returned = |entry: &Entry| {
            matches!(
                entry.state,
                SpooledJob::Spooled(..) | SpooledJob::Unspooled(_)
            )
        };
        if self.entries.get(jid).is_some_and(returned) {
            self.unsent_like(jid).insert(jid.clone());
        }
    }

    /// Returns how many returns are not acknowledged, without those of the schedule.
    pub fn unacknowledged(&self) -> usize {
        let returned = |entry: &Entry| {
            matches!(
                entry.state,
                SpooledJob::Spooled(..) | SpooledJob::Unspooled(_)
            )
        };
        let mut entries = self.entries.iter();
        let is_counted =
            |(jid, entry): &(&Jid, &Entry)| returned(entry) && !self.scheduled.contains_key(*jid);
        entries.by_ref().filter(is_counted).count()
    }

    fn note_forgotten(&mut self, entry: &Entry) {
        match entry.state {
            // It was never begun.
            SpooledJob::Barred => {}
            SpooledJob::Done(Some(session)) if session >= self.forgotten_in.0 => {
                if session > self.forgotten_in.0 {
                    self.forgotten = self.forgotten.max(self.forgotten_in.1);
                    self.forgotten_in = (session, 0);
                }
                self.forgotten_in.1 = self.forgotten_in.1.max(entry.expires);
            }
            _ => self.forgotten = self.forgotten.max(entry.expires),
        }
    }

    /// Returns the expiry until which jobs may be forgotten, for a later start of the minion.
    pub fn forgotten_until(&self) -> MasterTime {
        self.forgotten.max(self.forgotten_in.1)
    }

    /// Forgets jobs that are done and expired, and the oldest ones when there are too many.
    pub fn prune(&mut self, now: Option<MasterTime>) {
        if let Some(now) = now {
            self.forgotten_at = self.forgotten_at.max(now);
            let expired =
                |entry: &Entry| entry.is_over() && entry.expires.saturating_add(MARGIN) < now;
            let gone: Vec<Entry> = self
                .entries
                .extract_if(.., |_, entry| expired(entry))
                .map(|(_, entry)| entry)
                .collect();
            gone.iter().for_each(|entry| self.note_forgotten(entry));
        }
        while self.entries.len() > MAX_REMEMBERED {
            let oldest = self.entries.iter().find(|(_, entry)| entry.is_over());
            let Some(jid) = oldest.map(|(jid, _)| jid.clone()) else {
                break;
            };
            if let Some(entry) = self.entries.remove(&jid) {
                self.note_forgotten(&entry);
            }
            self.floor = self.floor.take().max(Some(jid));
        }
    }
}
