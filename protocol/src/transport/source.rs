//! The sources of connections, and the places that they share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::hash::Hash;
use std::net::{AddrParseError, IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The source that a peer counts as where sources have budgets: its IPv4 address, or the network of 64 bits
/// that its IPv6 address belongs to, because whoever has one address of such a network has all of them. It is the
/// same everywhere. A site often has a network of 48 or 56 bits, and so many sources; but providers also give each
/// of their customers 64 bits of one such network, and customers must not keep each other out.
///
/// ```
/// use saline_protocol::transport::SourceNetwork;
///
/// let source = |address: &str| SourceNetwork::of(address.parse().unwrap());
/// assert_eq!(source("192.0.2.1:1"), source("[::ffff:192.0.2.1]:2"));
/// assert_ne!(source("192.0.2.1:1"), source("192.0.2.2:1"));
/// assert_eq!(source("[2001:db8::1]:1").to_string(), "2001:db8::/64");
/// assert_eq!("2001:db8::/64".parse(), Ok(source("[2001:db8::2]:1")));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceNetwork(IpAddr);

impl SourceNetwork {
    /// Returns the source of a peer with this address.
    pub fn of(address: SocketAddr) -> Self {
        Self(match address.ip().to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => {
                let mut octets = address.octets();
                octets[8..].fill(0);
                IpAddr::V6(Ipv6Addr::from(octets))
            }
        })
    }
}

impl fmt::Display for SourceNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => write!(f, "{address}"),
            IpAddr::V6(network) => write!(f, "{network}/64"),
        }
    }
}

impl FromStr for SourceNetwork {
    type Err = AddrParseError;

    /// Reads a source as it is displayed.
    fn from_str(text: &str) -> Result<Self, AddrParseError> {
        let address = text.strip_suffix("/64").unwrap_or(text);
        Ok(Self::of(SocketAddr::new(address.parse()?, 0)))
    }
}

/// The places that sources take of something that is bounded for all of them together, each place known by a
/// key. When every place is taken, the source that has most gives up its oldest for a source that has fewer, so
/// that one source cannot keep the others out. Peers without an address are one source.
///
/// A fixed share for each source would not do: a fleet of thousands behind one address needs almost all places
/// when it comes back together, and may have them while nobody else wants any.
///
/// The bound is the caller's: it asks [`eviction_candidate`](Self::eviction_candidate) when it has no place left.
#[derive(Debug, Clone)]
pub struct SourcePlaces<K> {
    taken: HashMap<K, Place>,
    by_source: HashMap<Option<SourceNetwork>, BTreeMap<u64, K>>,
    /// How many places each source has, so that the one with most is found at once.
    by_count: BTreeSet<(usize, Option<SourceNetwork>)>,
    /// The number of the place that was taken last.
    last: u64,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    source: Option<SourceNetwork>,
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
    pub fn take(&mut self, key: K, source: Option<SourceNetwork>) {
        self.release(&key);
        self.last += 1;
        let number = self.last;
        self.taken.insert(key.clone(), Place { source, number });
        let own = self.by_source.entry(source).or_default();
        self.by_count.remove(&(own.len(), source));
        own.insert(number, key);
        self.by_count.insert((own.len(), source));
    }

    /// Gives a place back. Returns false when `key` has none.
    pub fn release(&mut self, key: &K) -> bool {
        let Some(Place { source, number }) = self.taken.remove(key) else {
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
    pub fn eviction_candidate(&self, source: Option<SourceNetwork>) -> Option<&K> {
        let own = self.by_source.get(&source).map_or(0, BTreeMap::len);
        let (most, largest) = self.by_count.last()?;
        if *most <= own + 1 {
            return None;
        }
        self.by_source
            .get(largest)?
            .first_key_value()
            .map(|(_, key)| key)
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

    /// Returns the source with this number; none is the source without an address.
    fn source(number: u8) -> Option<SourceNetwork> {
        (number > 0).then(|| SourceNetwork::of(SocketAddr::from(([192, 0, 2, number], 1))))
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
    struct Model(Vec<(u8, Option<SourceNetwork>)>);

    impl Model {
        fn count(&self, source: Option<SourceNetwork>) -> usize {
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
                for number in 0..6 {
                    let own = model.count(source(number));
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
        (0..10_000u32).for_each(|key| places.take(key, None));
        (0..10_000).for_each(|key| assert!(places.release(&key)));
        assert_eq!(places.taken.capacity(), 0);
        assert!(places.by_source.is_empty() && places.by_count.is_empty());
    }
}
