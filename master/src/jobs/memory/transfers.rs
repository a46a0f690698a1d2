//! Payloads that come in parts, each of which is stored when it comes: what is stored of which, and whether there is room
//! for more. The disk has the same, but for the digest, so that transfers go on after a restart.
//!
//! Only what has arrived takes room. When there is none left, transfers that stand still or crawl give way; and the one
//! that lacks the fewest bytes may go on, so that transfers that fill the room together come to an end one after the
//! other.

use std::collections::BTreeMap;
use std::time::Duration;

use saline_messages::{MinionId, Part, TransferDigest, TransferId};
use saline_protocol::transport::Instant;

use crate::jobs::tables::return_parts::{MAX_PARTS, StoredTransfer};

/// How long a transfer without a new part is kept.
const STALLED_LIFETIME: Duration = Duration::from_secs(3_600);

/// A transfer without a part for this time stands still.
const STANDSTILL: Duration = Duration::from_secs(10);

/// A transfer of which a part came within this time is arriving: for so long a minion waits for the answer to the next part.
const ARRIVING: Duration = Duration::from_secs(60);

/// A transfer that has brought fewer bytes a second, after a minute, crawls.
const CRAWL: u64 = 4 * 1024;

/// The age from which it is looked at how fast a transfer is.
const GRACE: Duration = Duration::from_secs(60);

/// The largest number of transfers of one minion. A further one takes the place of another.
const PER_MINION: usize = 4;

/// What transfers may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TransferLimits {
    /// The largest payload in bytes.
    pub(crate) largest: u64,
    /// The bytes of all parts of payloads that are not whole, about: one transfer may go beyond it.
    pub(crate) most: u64,
}

/// A return: its minion, and its job.
pub(crate) type ReturnKey = (MinionId, i64);

/// The payloads of which some parts are stored.
#[derive(Debug)]
pub(crate) struct Transfers {
    limits: TransferLimits,
    by_return: BTreeMap<ReturnKey, Transfer>,
    /// The bytes of all parts.
    bytes: u64,
    /// The number of the first part of the next payload. None is given twice while a master runs, so what is
    /// removed late is never the part of another payload.
    next: i64,
    /// The partitions and the first numbers of payloads whose parts are to be removed from the disk.
    unneeded: Vec<(i64, i64)>,
}

#[derive(Debug)]
struct Transfer {
    /// The partition that has the parts.
    start: i64,
    stored: StoredTransfer,
    /// The digest of what is stored. None after a restart, until somebody has read it.
    digest: Option<TransferDigest>,
    begun: Instant,
    touched: Instant,
    /// Whether a part is being written.
    is_writing: bool,
}

/// What is to be done with a part.
#[derive(Debug)]
pub(crate) enum Admission {
    /// Nothing: this many bytes from the beginning on are stored.
    Received(u64),
    /// Nothing now: there is no room, or another part of it is being written.
    Busy,
    /// Nothing: it fits no payload.
    Malformed,
    /// It is written; nothing else is until [`Transfers::written`] or [`Transfers::not_written`] was told.
    Write(PartToWrite),
}

/// A part that is to be written.
#[derive(Debug)]
pub(crate) struct PartToWrite {
    /// The partition.
    pub(crate) start: i64,
    /// The number of its row.
    pub(crate) number: i64,
    /// The transfer without this part.
    pub(crate) transfer: StoredTransfer,
    /// The digest of the parts before it, if it is known.
    pub(crate) digest: Option<TransferDigest>,
    /// Whether the payload is whole with it.
    pub(crate) is_last: bool,
}

impl PartToWrite {
    /// Whether no part was stored before.
    pub(crate) fn is_first(&self) -> bool {
        self.transfer.parts == 0
    }
}

impl Transfer {
    /// The bytes that are missing.
    fn left(&self) -> u64 {
        self.stored.total - self.stored.received
    }

    /// Whether it stands still or crawls, and nothing of it is being written.
    fn is_slow(&self, now: Instant) -> bool {
        let age = now - self.begun;
        let crawls = age > GRACE && self.stored.received < CRAWL.saturating_mul(age.as_secs());
        !self.is_writing && (now - self.touched >= STANDSTILL || crawls)
    }
}

impl Transfers {
    /// Has nothing yet.
    pub(crate) fn new(limits: TransferLimits) -> Self {
        Self {
            limits,
            by_return: BTreeMap::new(),
            bytes: 0,
            next: MAX_PARTS,
            unneeded: Vec::new(),
        }
    }

    /// Goes on after the number of a part.
    pub(crate) fn go_on_after(&mut self, number: i64) {
        self.next = self
            .next
            .max((number / MAX_PARTS + 1).saturating_mul(MAX_PARTS));
    }

    /// Takes up a transfer that was stored by a master before. One that is no transfer under way is removed.
    pub(crate) fn take_up(&mut self, start: i64, stored: StoredTransfer, now: Instant) {
        let key = (stored.minion.clone(), stored.job);
        let fits = stored.received > 0 && stored.received < stored.total;
        if !fits || stored.total > self.limits.largest || self.by_return.contains_key(&key) {
            return self.unneeded.push((start, stored.first));
        }
        self.bytes += stored.received;
        let transfer = Transfer {
            start,
            stored,
            digest: None,
            begun: now,
            touched: now,
            is_writing: false,
        };
        self.by_return.insert(key, transfer);
    }

    /// Decides what is done with a part of the return `key`, whose job is in the partition `start`.
    pub(crate) fn admit(
        &mut self,
        key: &ReturnKey,
        start: i64,
        part: &Part,
        now: Instant,
    ) -> Admission {
        let Some(end) = part.end() else {
            return Admission::Malformed;
        };
        if part.total == 0 || part.total > self.limits.largest {
            return Admission::Malformed;
        }
        match self.by_return.get(key) {
            Some(other) if other.is_writing => return Admission::Busy,
            Some(other) if (other.stored.id, other.stored.total) != (part.transfer, part.total) => {
                // The minion has another return now.
                self.forget(key);
            }
            _ => {}
        }
        let known = self.by_return.get(key).map(|known| &known.stored);
        let (received, parts) = known.map_or((0, 0), |known| (known.received, known.parts));
        if part.offset != received || part.bytes.is_empty() {
            return Admission::Received(received);
        }
        if parts >= MAX_PARTS {
            self.forget(key);
            return Admission::Malformed;
        }
        if !self.makes_room(key, part, now) {
            return Admission::Busy;
        }
        if !self.by_return.contains_key(key) {
            self.begin(key, start, (part.transfer, part.total), now);
        }
        let Some(transfer) = self.by_return.get_mut(key) else {
            return Admission::Busy;
        };
        transfer.is_writing = true;
        transfer.touched = now;
        Admission::Write(PartToWrite {
            start: transfer.start,
            number: transfer.stored.first + transfer.stored.parts,
            transfer: transfer.stored.clone(),
            digest: transfer.digest.clone(),
            is_last: end == part.total,
        })
    }

    fn begin(&mut self, key: &ReturnKey, start: i64, (id, total): (TransferId, u64), now: Instant) {
        let first = self.next;
        self.next = first.saturating_add(MAX_PARTS);
        let transfer = Transfer {
            start,
            stored: StoredTransfer {
                minion: key.0.clone(),
                job: key.1,
                id,
                total,
                first,
                parts: 0,
                received: 0,
            },
            digest: Some(TransferDigest::default()),
            begun: now,
            touched: now,
            is_writing: false,
        };
        self.by_return.insert(key.clone(), transfer);
    }

    /// Whether parts of a return are arriving.
    pub(crate) fn is_arriving(&self, key: &ReturnKey, now: Instant) -> bool {
        let transfer = self.by_return.get(key);
        transfer.is_some_and(|transfer| now - transfer.touched < ARRIVING)
    }

    /// Notes that a part of so many bytes is stored, with the digest of all that is.
    pub(crate) fn written(
        &mut self,
        key: &ReturnKey,
        first: i64,
        bytes: u64,
        digest: TransferDigest,
    ) {
        if let Some(transfer) = self.of(key, first) {
            transfer.is_writing = false;
            transfer.digest = Some(digest);
            transfer.stored.parts += 1;
            transfer.stored.received += bytes;
            self.bytes += bytes;
        }
    }

    /// Notes that a part was not stored. The digest of those before it may be known by now.
    pub(crate) fn not_written(
        &mut self,
        key: &ReturnKey,
        first: i64,
        digest: Option<TransferDigest>,
    ) {
        let Some(transfer) = self.of(key, first) else {
            return;
        };
        transfer.is_writing = false;
        transfer.digest = transfer.digest.take().or(digest);
        if transfer.stored.parts == 0 {
            // A statement of it may have been carried out.
            self.forget(key);
        }
    }

    /// Forgets a transfer whose parts are those of a return now, or are removed.
    pub(crate) fn ended(&mut self, key: &ReturnKey, first: i64) {
        if self.of(key, first).is_some() {
            self.remove(key);
        }
    }

    /// Forgets a transfer that came to nothing, and has its parts removed.
    pub(crate) fn discard(&mut self, key: &ReturnKey, first: i64) {
        if self.of(key, first).is_some() {
            self.forget(key);
        }
    }

    fn forget(&mut self, key: &ReturnKey) {
        if let Some(gone) = self.remove(key) {
            self.unneeded.push((gone.start, gone.stored.first));
        }
    }

    /// Forgets the transfers of a partition that is removed, or reduced to the jobs of `kept`, which are in their order.
    pub(crate) fn forget_partition(&mut self, start: i64, kept: &[i64]) {
        let mut keys: Vec<_> = self.keys(|transfer| transfer.start == start);
        keys.retain(|(_, job)| kept.binary_search(job).is_err());
        for key in keys {
            self.remove(&key);
        }
    }

    /// Forgets transfers without a new part for an hour, and returns which.
    pub(crate) fn sweep(&mut self, now: Instant) -> Vec<ReturnKey> {
        let stale = self
            .keys(|transfer| !transfer.is_writing && now - transfer.touched >= STALLED_LIFETIME);
        for key in &stale {
            self.forget(key);
        }
        stale
    }

    /// Takes the partitions and first numbers of payloads whose parts are to be removed.
    pub(crate) fn take_unneeded(&mut self) -> Vec<(i64, i64)> {
        std::mem::take(&mut self.unneeded)
    }

    /// Has the parts of a payload removed later.
    pub(crate) fn put_back_unneeded(&mut self, unneeded: impl IntoIterator<Item = (i64, i64)>) {
        self.unneeded.extend(unneeded);
    }

    /// Makes room for a part, and returns whether there is room.
    fn makes_room(&mut self, key: &ReturnKey, part: &Part, now: Instant) -> bool {
        if !self.by_return.contains_key(key) {
            let (first, last) = ((key.0.clone(), i64::MIN), (key.0.clone(), i64::MAX));
            let all = self.by_return.range(first..=last);
            if all.clone().count() >= PER_MINION {
                let idle = all.filter(|(_, transfer)| !transfer.is_writing);
                let oldest = idle.min_by_key(|(_, transfer)| transfer.touched);
                let Some(oldest) = oldest.map(|(other, _)| other.clone()) else {
                    return false;
                };
                self.forget(&oldest);
            }
        }
        let bytes = part.bytes.len() as u64;
        while self.bytes.saturating_add(bytes) > self.limits.most {
            let others = self.by_return.iter().filter(|(other, _)| *other != key);
            let slow = others.filter(|(_, transfer)| transfer.is_slow(now));
            let slowest = slow.min_by_key(|(_, transfer)| transfer.touched);
            match slowest.map(|(other, _)| other.clone()) {
                Some(slowest) => self.forget(&slowest),
                None => return self.is_nearest_to_its_end(key, part.total - part.offset),
            }
        }
        true
    }

    /// Whether no other transfer lacks fewer bytes than `left`.
    fn is_nearest_to_its_end(&self, key: &ReturnKey, left: u64) -> bool {
        let others = self.by_return.iter().filter(|(other, _)| *other != key);
        let nearest = others
            .map(|(other, transfer)| (transfer.left(), other))
            .min();
        nearest.is_none_or(|nearest| (left, key) < nearest)
    }

    fn keys(&self, wanted: impl Fn(&Transfer) -> bool) -> Vec<ReturnKey> {
        let found = self
            .by_return
            .iter()
            .filter(|(_, transfer)| wanted(transfer));
        found.map(|(key, _)| key.clone()).collect()
    }

    /// Returns the transfer of a return, if it is still the one that begins with this part.
    fn of(&mut self, key: &ReturnKey, first: i64) -> Option<&mut Transfer> {
        let transfer = self.by_return.get_mut(key);
        transfer.filter(|transfer| transfer.stored.first == first)
    }

    fn remove(&mut self, key: &ReturnKey) -> Option<Transfer> {
        let gone = self.by_return.remove(key)?;
        self.bytes -= gone.stored.received;
        Some(gone)
    }
}

#[cfg(test)]
mod tests;
