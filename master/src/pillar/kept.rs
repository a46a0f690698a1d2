//! The pillars that are kept in memory: the last whole one of each minion, and those that are on their way in parts.
//!
//! The kept pillars are bounded in bytes. When they are too large, the minions whose pillars were not asked for the longest lose theirs,
//! which costs them nothing but the last good pillar of a broken one after a restart of theirs, since they have their own.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use saline_data::Packed;
use saline_messages::{MinionId, Outgoing, Part, TransferId};

/// The most bytes of all pillars that are kept.
const MAX_KEPT_BYTES: usize = 256 * 1024 * 1024;

/// The most environments of which one minion's pillars are kept.
const ENVIRONMENTS: usize = 4;

/// What an entry takes beside its pillars.
const ENTRY: usize = 512;

/// The kept pillars of all minions.
#[derive(Debug)]
pub(super) struct KeptPillars {
    most: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    minions: HashMap<MinionId, Kept>,
    /// The minions by when theirs were used last.
    by_use: BTreeMap<u64, MinionId>,
    uses: u64,
    bytes: usize,
}

/// The kept pillars of one minion.
#[derive(Default)]
struct Kept {
    used: u64,
    /// The last whole ones, each with the only environment that it was compiled for, the latest last.
    good: Vec<(Option<String>, Packed)>,
    /// What the minion fetches in parts.
    sending: Option<Outgoing>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Pillars are secrets.
        write!(f, "Kept({} B)", self.bytes())
    }
}

impl Kept {
    fn bytes(&self) -> usize {
        let good = self.good.iter();
        let good: usize = good.map(|(_, pillar)| pillar.as_bytes().len()).sum();
        let sending = self.sending.as_ref().map_or(0, |whole| whole.bytes().len());
        ENTRY + good + sending
    }
}

impl Default for KeptPillars {
    fn default() -> Self {
        Self {
            most: MAX_KEPT_BYTES,
            table: Mutex::default(),
        }
    }
}

impl KeptPillars {
    /// Keeps a pillar without errors.
    pub(super) fn note_good(&self, id: &MinionId, environment: Option<&str>, pillar: Packed) {
        self.change(id, |kept| {
            kept.good.retain(|(of, _)| of.as_deref() != environment);
            if kept.good.len() >= ENVIRONMENTS {
                kept.good.remove(0);
            }
            kept.good.push((environment.map(str::to_owned), pillar));
        });
    }

    /// Returns the last pillar of a minion that had no errors.
    pub(super) fn good(&self, id: &MinionId, environment: Option<&str>) -> Option<Packed> {
        let table = self.lock();
        let mut good = table.minions.get(id)?.good.iter();
        let (_, pillar) = good.find(|(of, _)| of.as_deref() == environment)?;
        Some(pillar.clone())
    }

    /// Keeps what a minion fetches in parts.
    pub(super) fn note_sending(&self, id: &MinionId, whole: Outgoing) {
        self.change(id, |kept| kept.sending = Some(whole));
    }

    /// Returns a part of what a minion fetches. With the last part it is forgotten.
    pub(super) fn part(
        &self,
        id: &MinionId,
        transfer: TransferId,
        offset: u64,
        most: usize,
    ) -> Option<Part> {
        let part = {
            let table = self.lock();
            let whole = table.minions.get(id)?.sending.as_ref()?;
            let part = whole.part(offset, most);
            (part.transfer == transfer).then_some(part)?
        };
        if part.end() == Some(part.total) {
            self.change(id, |kept| kept.sending = None);
        }
        Some(part)
    }

    /// Forgets what is kept of a minion.
    pub(super) fn forget(&self, id: &MinionId) {
        self.lock().remove(id);
    }

    /// Returns how many minions have something here, and how many bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        let table = self.lock();
        (table.minions.len(), table.bytes)
    }

    fn change(&self, id: &MinionId, change: impl FnOnce(&mut Kept)) {
        let mut table = self.lock();
        let mut kept = table.remove(id).unwrap_or_default();
        change(&mut kept);
        table.uses += 1;
        kept.used = table.uses;
        table.bytes += kept.bytes();
        table.by_use.insert(kept.used, id.clone());
        table.minions.insert(id.clone(), kept);
        while table.bytes > self.most {
            let Some((_, oldest)) = table.by_use.pop_first() else {
                return;
            };
            table.remove(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A panic can leave a figure that is too large or too small, and nothing worse.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn remove(&mut self, id: &MinionId) -> Option<Kept> {
        let kept = self.minions.remove(id)?;
        self.by_use.remove(&kept.used);
        self.bytes = self.bytes.saturating_sub(kept.bytes());
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> MinionId {
        MinionId::parse(text).unwrap()
    }

    fn pillar(size: usize) -> Packed {
        Packed::from_bytes(vec![7; size])
    }

    #[test]
    fn each_minion_has_its_own_and_the_longest_unused_goes_first() {
        let kept = KeptPillars {
            most: 3 * (ENTRY + 1_000),
            ..KeptPillars::default()
        };
        for name in ["a", "b", "c"] {
            kept.note_good(&id(name), None, pillar(1_000));
        }
        assert_eq!(kept.good(&id("a"), None), Some(pillar(1_000)));
        assert_eq!(kept.good(&id("a"), Some("dev")), None);
        kept.note_good(&id("a"), None, pillar(999));
        kept.note_good(&id("d"), None, pillar(1_000));
        assert_eq!(kept.good(&id("b"), None), None, "it was used first");
        assert_eq!(kept.good(&id("a"), None), Some(pillar(999)));
        kept.forget(&id("a"));
        kept.forget(&id("c"));
        kept.forget(&id("d"));
        assert_eq!(kept.size(), (0, 0));
        kept.note_good(&id("a"), None, pillar(10_000));
        assert_eq!(kept.size(), (0, 0), "it is larger than all may be");
    }

    #[test]
    fn one_minion_has_few_environments() {
        let kept = KeptPillars::default();
        for name in ["1", "2", "3", "4", "5"] {
            kept.note_good(&id("a"), Some(name), pillar(1));
        }
        assert_eq!(kept.good(&id("a"), Some("1")), None);
        assert_eq!(kept.good(&id("a"), Some("5")), Some(pillar(1)));
        assert_eq!(kept.size(), (1, ENTRY + ENVIRONMENTS));
    }

    #[test]
    fn what_is_sent_is_its_minions_alone_and_goes_with_the_last_part() {
        let kept = KeptPillars::default();
        let whole = Outgoing::new(vec![1; 100]);
        let transfer = whole.part(0, 0).transfer;
        kept.note_sending(&id("a"), whole);
        let part = |name, offset| kept.part(&id(name), transfer, offset, 60);
        assert_eq!(part("b", 0), None);
        assert_eq!(part("a", 0).unwrap().bytes.len(), 60);
        let other = TransferId::of(b"other");
        assert_eq!(kept.part(&id("a"), other, 0, 60), None);
        assert_eq!(part("a", 60).unwrap().bytes.len(), 40);
        assert_eq!(part("a", 60), None);
    }
}
