//! Places that sources share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use super::Source;

/// The places that sources take of something that is bounded for all of them together, each place known by a
/// key. When every place is taken, the source that has most gives up its oldest for a source that has fewer, so
/// that one source cannot keep the others out.
///
/// A fixed share for each source would not do: a fleet of thousands behind one address needs almost all places
/// when it comes back together, and may have them while nobody else wants any.
///
/// The bound is the caller's, who gives it to [`take_one_of`](Self::take_one_of), or asks
/// [`eviction_candidate`](Self::eviction_candidate) when there is no place left.
#[derive(Debug, Clone)]
pub struct SourcePlaces<K> {
    taken: HashMap<K, NumberedSource>,
    by_source: HashMap<Source, BTreeMap<u64, K>>,
    /// How many places each source has, so that the one with most is found at once.
    by_count: BTreeSet<(usize, Source)>,
    /// The number of the place that was taken last.
    last: u64,
}

/// Every place is taken, and nobody gives one up for this source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("every place is taken, and this source has no fewer than others")]
pub struct NoPlace;

#[derive(Debug, Clone, Copy)]
struct NumberedSource {
    source: Source,
    number: u64,
}

impl<K> Default for SourcePlaces<K> {
    fn default() -> Self {
        Self {
            taken: HashMap::new(),
            by_source: HashMap::new(),
            by_count: BTreeSet::new(),
            last: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> SourcePlaces<K> {
    /// Takes a place for `key`. One that has a place gets a new one: it is the newest of its source then.
    pub fn take(&mut self, key: K, source: Source) {
        self.release(&key);
        self.last += 1;
        let number = self.last;
        self.taken
            .insert(key.clone(), NumberedSource { source, number });
        let own = self.by_source.entry(source).or_default();
        self.by_count.remove(&(own.len(), source));
        own.insert(number, key);
        self.by_count.insert((own.len(), source));
    }

    /// Takes one of `places` places for `key`. When all are taken, the source that has most gives up its oldest, whose
    /// key is returned. A key that has a place gets a new one in its stead.
    ///
    /// # Errors
    /// [`NoPlace`] when all are taken and that source has no more than `source` would have; nothing has changed.
    pub fn take_one_of(
        &mut self,
        places: usize,
        key: K,
        source: Source,
    ) -> Result<Option<K>, NoPlace> {
        let mut evicted = None;
        if self.taken.len() >= places && !self.contains(&key) {
            let oldest = self.eviction_candidate(source).ok_or(NoPlace)?.clone();
            self.release(&oldest);
            evicted = Some(oldest);
        }
        self.take(key, source);
        Ok(evicted)
    }

    /// Gives a place back. Returns false when `key` has none.
    pub fn release(&mut self, key: &K) -> bool {
        let Some(NumberedSource { source, number }) = self.taken.remove(key) else {
            return false;
        };
        if let Some(own) = self.by_source.get_mut(&source) {
            self.by_count.remove(&(own.len(), source));
            own.remove(&number);
            match own.len() {
                0 => drop(self.by_source.remove(&source)),
                left => drop(self.by_count.insert((left, source))),
            }
        }
        if self.taken.is_empty() {
            // Thousands may have been here, and the memory of their places is of no use to anybody.
            *self = Self {
                last: self.last,
                ..Self::default()
            };
        }
        true
    }

    /// Returns the key that gives its place up for one more of `source`: the oldest of the source that has most
    /// places. None when that source has no more than `source` would have: whoever is turned away then would
    /// otherwise get the place back in the same way.
    pub fn eviction_candidate(&self, source: Source) -> Option<&K> {
        let own = self.count(source);
        let (most, _) = self.by_count.last()?;
        if *most <= own + 1 {
            return None;
        }
        self.oldest_of_largest()
    }

    /// Returns the oldest key of the source that has most places: who gives way where the places themselves run
    /// out, whoever comes next.
    pub fn oldest_of_largest(&self) -> Option<&K> {
        let (_, largest) = self.by_count.last()?;
        let own = self.by_source.get(largest)?;
        own.first_key_value().map(|(_, key)| key)
    }

    /// Returns each source with its oldest key, those that have the fewest places first.
    pub fn oldest_of_each(&self) -> impl Iterator<Item = (Source, &K)> {
        self.by_count.iter().filter_map(|(_, source)| {
            let (_, key) = self.by_source.get(source)?.first_key_value()?;
            Some((*source, key))
        })
    }

    /// Returns the source that took the place of `key`; none when it has no place.
    pub fn source(&self, key: &K) -> Option<Source> {
        self.taken.get(key).map(|taken| taken.source)
    }

    /// Returns how many places `source` has.
    pub fn count(&self, source: Source) -> usize {
        self.by_source.get(&source).map_or(0, BTreeMap::len)
    }

    /// Returns how many places are taken.
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// Whether no place is taken.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Whether `key` has a place.
    pub fn contains(&self, key: &K) -> bool {
        self.taken.contains_key(key)
    }

    /// Returns the keys that have places, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.taken.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the source with this number.
    fn source(number: u8) -> Source {
        match number {
            0 => Source::Process,
            _ => Source::User(number.into()),
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Take(u8, u8),
        Release(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (any::<u8>(), 0..5u8).prop_map(|(key, source)| Step::Take(key, source)),
            any::<u8>().prop_map(Step::Release),
        ]
    }

    /// What it is, without an index: keys and sources in the order in which places were taken.
    #[derive(Default)]
    struct Model(Vec<(u8, Source)>);

    impl Model {
        fn count(&self, source: Source) -> usize {
            self.0.iter().filter(|(_, other)| *other == source).count()
        }
    }

    proptest! {
        #[test]
        fn it_is_as_its_model(steps in prop::collection::vec(step(), 0..200)) {
            let (mut places, mut model) = (SourcePlaces::default(), Model::default());
            for step in steps {
                match step {
                    Step::Take(key, number) => {
                        places.take(key, source(number));
                        model.0.retain(|(other, _)| *other != key);
                        model.0.push((key, source(number)));
                    }
                    Step::Release(key) => {
                        let had = model.0.iter().any(|(other, _)| *other == key);
                        prop_assert_eq!(places.release(&key), had);
                        model.0.retain(|(other, _)| *other != key);
                    }
                }
                prop_assert_eq!(places.len(), model.0.len());
                prop_assert_eq!(places.is_empty(), model.0.is_empty());
                for (key, source) in &model.0 {
                    prop_assert_eq!(places.source(key), Some(*source));
                }
                let oldest = places.oldest_of_largest().map(|key| {
                    let of = model.0.iter().find(|(other, _)| other == key).unwrap().1;
                    (model.count(of), model.0.iter().find(|(_, other)| *other == of).unwrap().0 == *key)
                });
                let most = (0..6).map(|other| model.count(source(other))).max().filter(|most| *most > 0);
                prop_assert_eq!(oldest, most.map(|most| (most, true)));
                for number in 0..6 {
                    let own = model.count(source(number));
                    prop_assert_eq!(places.count(source(number)), own);
                    let most = (0..6).map(|other| model.count(source(other))).max();
                    let given = places.eviction_candidate(source(number)).copied();
                    let Some(key) = given else {
                        prop_assert!(most <= Some(own + 1));
                        continue;
                    };
                    let largest = model.0.iter().find(|(other, _)| *other == key).unwrap().1;
                    prop_assert_eq!(Some(model.count(largest)), most);
                    prop_assert!(most > Some(own + 1));
                    // The oldest of its source.
                    let oldest = model.0.iter().find(|(_, other)| *other == largest);
                    prop_assert_eq!(oldest.map(|(key, _)| *key), Some(key));
                }
            }
        }
    }

    #[test]
    fn who_takes_one_of_few_places_is_told_who_gave_it_up() {
        let mut places = SourcePlaces::default();
        for key in 0..3u8 {
            assert_eq!(places.take_one_of(3, key, source(1)), Ok(None));
        }
        assert_eq!(places.take_one_of(3, 0, source(1)), Ok(None), "its own");
        assert_eq!(places.take_one_of(3, 3, source(1)), Err(NoPlace));
        assert_eq!(places.take_one_of(3, 3, source(2)), Ok(Some(1)));
        assert_eq!(places.take_one_of(3, 4, source(2)), Err(NoPlace));
        assert!(places.contains(&0) && places.contains(&2) && places.contains(&3));
        assert_eq!(places.len(), 3);
    }

    #[test]
    fn those_who_are_turned_away_do_not_take_the_place_back() {
        let mut places = SourcePlaces::default();
        (0..100u8).for_each(|key| places.take(key, source(1)));
        let mut steps = 0;
        // Both ask for a place again and again, of a hundred.
        for key in 100..=255u8 {
            for number in [2, 1] {
                if let Some(given) = places.eviction_candidate(source(number)).copied() {
                    places.release(&given);
                    places.take(key, source(number));
                    steps += 1;
                }
            }
        }
        assert_eq!(
            steps, 50,
            "each has half of them, and then nobody gives way"
        );
    }

    #[test]
    fn memory_comes_back() {
        let mut places = SourcePlaces::default();
        (0..10_000u32).for_each(|key| places.take(key, Source::Process));
        (0..10_000).for_each(|key| assert!(places.release(&key)));
        assert_eq!(places.taken.capacity(), 0);
        assert!(places.by_source.is_empty() && places.by_count.is_empty());
    }
}
