//! The pillars that are kept in memory: the last whole one of each minion, and those that are on their way in parts.
//!
//! The kept pillars are bounded in bytes. When they are too large, the minions whose pillars were not asked for the longest lose theirs,
//! which costs them nothing but the last good pillar of a broken one after a restart of theirs, since they have their own.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use saline_data::Packed;
use saline_messages::{MinionId, Outgoing, Part, TransferId};

use super::AskedEnvironments;
use super::version::SourceVersion;

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

/// A pillar without errors.
#[derive(Clone)]
pub(super) struct GoodPillar {
    /// The environments that were asked for.
    pub(super) asked: AskedEnvironments,
    /// What it was compiled from.
    pub(super) from: SourceVersion,
    pub(super) packed: Packed,
}

/// The kept pillars of one minion.
#[derive(Default)]
struct Kept {
    used: u64,
    /// The last ones without errors, one for each choice of environments, the latest last.
    good: Vec<GoodPillar>,
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
        let good: usize = good.map(|pillar| pillar.packed.as_bytes().len()).sum();
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
    pub(super) fn note_good(&self, id: &MinionId, pillar: GoodPillar) {
        self.change(id, |kept| {
            kept.good.retain(|before| before.asked != pillar.asked);
            if kept.good.len() >= ENVIRONMENTS {
                // What targets look at is not what a minion can push out by asking for environments.
                let oldest = kept.good.iter().position(|one| !one.asked.is_default());
                kept.good.remove(oldest.unwrap_or_default());
            }
            kept.good.push(pillar);
        });
    }

    /// Returns the last pillar of a minion for these environments that had no errors.
    pub(super) fn good(&self, id: &MinionId, asked: &AskedEnvironments) -> Option<GoodPillar> {
        let table = self.lock();
        let mut good = table.minions.get(id)?.good.iter();
        good.find(|pillar| pillar.asked == *asked).cloned()
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
    use crate::settings::LiveSettings;

    fn id(text: &str) -> MinionId {
        MinionId::parse(text).unwrap()
    }

    fn named(environment: &str) -> AskedEnvironments {
        AskedEnvironments {
            saltenv: None,
            pillarenv: Some(environment.to_owned()),
        }
    }

    fn note(kept: &KeptPillars, minion: &str, asked: AskedEnvironments, size: usize) {
        let good = GoodPillar {
            asked,
            from: SourceVersion::new(&LiveSettings::new(&Default::default()).now(), Vec::new()),
            packed: Packed::from_bytes(vec![7; size]),
        };
        kept.note_good(&id(minion), good);
    }

    fn size(kept: &KeptPillars, minion: &str, asked: &AskedEnvironments) -> Option<usize> {
        let good = kept.good(&id(minion), asked)?;
        Some(good.packed.as_bytes().len())
    }

    #[test]
    fn each_minion_has_its_own_and_the_longest_unused_goes_first() {
        let kept = KeptPillars {
            most: 3 * (ENTRY + 1_000),
            ..KeptPillars::default()
        };
        for name in ["a", "b", "c"] {
            note(&kept, name, AskedEnvironments::default(), 1_000);
        }
        assert_eq!(size(&kept, "a", &AskedEnvironments::default()), Some(1_000));
        assert_eq!(size(&kept, "a", &named("dev")), None);
        note(&kept, "a", AskedEnvironments::default(), 999);
        note(&kept, "d", AskedEnvironments::default(), 1_000);
        assert_eq!(
            size(&kept, "b", &AskedEnvironments::default()),
            None,
            "it was used first"
        );
        assert_eq!(size(&kept, "a", &AskedEnvironments::default()), Some(999));
        kept.forget(&id("a"));
        kept.forget(&id("c"));
        kept.forget(&id("d"));
        assert_eq!(kept.size(), (0, 0));
        note(&kept, "a", AskedEnvironments::default(), 10_000);
        assert_eq!(kept.size(), (0, 0), "it is larger than all may be");
    }

    #[test]
    fn one_minion_has_few_environments() {
        let kept = KeptPillars::default();
        note(&kept, "a", AskedEnvironments::default(), 1);
        for name in ["1", "2", "3", "4", "5"] {
            note(&kept, "a", named(name), 1);
        }
        assert_eq!(size(&kept, "a", &named("1")), None);
        assert_eq!(size(&kept, "a", &named("5")), Some(1));
        let default = size(&kept, "a", &AskedEnvironments::default());
        assert_eq!(default, Some(1), "targets look at it");
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
