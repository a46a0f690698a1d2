//! The bytes that each of many sources has in a store of bounded size. When the store is full, the source that has most
//! gives way.

use std::collections::{BTreeSet, HashMap};

/// The bytes of each source.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shares {
    by_source: HashMap<String, u64>,
    /// The same, so that the source with most is found at once.
    by_bytes: BTreeSet<(u64, String)>,
    total: u64,
}

impl Shares {
    /// Notes that a source has so many bytes more.
    pub(crate) fn add(&mut self, source: &str, bytes: u64) {
        let before = self.of(source);
        self.set(source, before, before.saturating_add(bytes));
    }

    /// Notes that a source has so many bytes less.
    pub(crate) fn remove(&mut self, source: &str, bytes: u64) {
        let before = self.of(source);
        self.set(source, before, before.saturating_sub(bytes));
    }

    /// Returns the bytes of all sources.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the source that has most; none when no source has any.
    pub(crate) fn largest(&self) -> Option<&str> {
        self.by_bytes.last().map(|(_, source)| source.as_str())
    }

    fn of(&self, source: &str) -> u64 {
        self.by_source.get(source).copied().unwrap_or(0)
    }

    fn set(&mut self, source: &str, before: u64, after: u64) {
        self.total = self.total - before + after;
        self.by_bytes.remove(&(before, source.to_owned()));
        match after {
            0 => drop(self.by_source.remove(source)),
            _ => {
                self.by_source.insert(source.to_owned(), after);
                self.by_bytes.insert((after, source.to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_as_their_model(steps in prop::collection::vec((0..4_usize, -30..50_i64), 0..200)) {
            let names = ["a", "b", "c", "d"];
            let (mut shares, mut model) = (Shares::default(), [0_u64; 4]);
            for (source, change) in steps {
                let bytes = change.unsigned_abs();
                if change < 0 {
                    shares.remove(names[source], bytes);
                    model[source] = model[source].saturating_sub(bytes);
                } else {
                    shares.add(names[source], bytes);
                    model[source] += bytes;
                }
                prop_assert_eq!(shares.total(), model.iter().sum::<u64>());
                let most = model.iter().max().copied().unwrap_or(0);
                let largest = shares.largest().map(|name| model[names.iter().position(|n| *n == name).unwrap()]);
                prop_assert_eq!(largest, (most > 0).then_some(most));
                prop_assert_eq!(shares.by_source.len(), model.iter().filter(|bytes| **bytes > 0).count());
                prop_assert_eq!(shares.by_bytes.len(), shares.by_source.len());
            }
        }
    }
}
