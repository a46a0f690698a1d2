//! The key of each minion to which the offers under its id were made. Another key under the id is another
//! machine, which inherits nothing.
//!
//! The key is compared with the accepted ones at the start and whenever a session is let in. Records are written by
//! flushes alone, after the states that changed before them, and before the offers to a key that is new.

use saline_messages::{Jid, MinionId};

use super::{JobStore, lock};

impl JobStore {
    /// Notes that `key` is the accepted key of a minion, unless another one is noted. Returns whether it is the
    /// noted key now; if not, what was offered to the other one has to be withdrawn. The note is on the disk
    /// before any offer to the minion that is published from now on.
    pub fn note_key(&self, minion: &MinionId, key: [u8; 32]) -> bool {
        self.records.note_key(minion, key, self.now())
    }

    /// Notes when the Noise key was vouched for, in nanoseconds since 1970, with which the minion with the noted key comes. Returns
    /// false when a key of a later vouch was met before: that one took the place of this one.
    pub fn note_vouch(&self, minion: &MinionId, vouched: u64) -> bool {
        self.records.note_vouch(minion, vouched)
    }

    /// Ends every open offer of a minion whose key was deleted, rejected or replaced by `accepted`, and begins a
    /// new record of the minion. Returns the jobs: none when `accepted` is the noted key already. What was
    /// handed over and has expired unconfirmed stays so.
    pub fn withdraw(&self, minion: &MinionId, accepted: Option<[u8; 32]>) -> Vec<Jid> {
        let now = self.now();
        if self.records.has_key(minion, accepted) {
            return Vec::new();
        }
        // Before the key is noted: a flush in between writes the states first, and then the key.
        let jobs = lock(&self.open).withdraw(minion, now);
        self.records.replace_key(minion, accepted, now);
        jobs
    }

    /// Whether `key` is the noted key of a minion.
    pub fn has_key(&self, minion: &MinionId, key: [u8; 32]) -> bool {
        self.records.has_key(minion, Some(key))
    }

    /// Whether a key of the minion is noted, or it has a job in a state that is not final.
    pub fn has_key_or_jobs(&self, minion: &MinionId) -> bool {
        let record = self.records.get(minion);
        record.is_some_and(|record| record.key.is_some()) || lock(&self.open).has_minion(minion)
    }

    /// Returns those of the minions of which no key is noted.
    pub fn without_key<'a>(&self, minions: impl Iterator<Item = &'a MinionId>) -> Vec<MinionId> {
        self.records.look(|records| {
            let has_key = |minion: &&MinionId| {
                let record = records.get(*minion);
                record.is_some_and(|record| record.key.is_some())
            };
            minions.filter(|minion| !has_key(minion)).cloned().collect()
        })
    }

    /// Returns the minions of which a key is noted, and those that have a job in a state that is not final.
    pub fn minions_with_keys_or_jobs(&self) -> Vec<MinionId> {
        let mut minions = lock(&self.open).minions();
        self.records.look(|records| {
            let noted = records.iter().filter(|(_, record)| record.key.is_some());
            minions.extend(noted.map(|(minion, _)| minion.clone()));
        });
        minions.sort_unstable();
        minions.dedup();
        minions
    }
}
