//! An index over filters that finds the subscribers of a topic, so that the cost of a publication grows with its
//! subscribers alone.

use std::collections::HashMap;

use saline_protocol::transport::{Topic, TopicFilter};

/// From filters to subscriptions, which have a key and a value each.
#[derive(Debug)]
pub(crate) struct SubscriptionIndex<K, V> {
    exact: HashMap<Box<str>, Subscribers<K, V>>,
    prefix: HashMap<Box<str>, Subscribers<K, V>>,
}

/// Sorted by key, because `job/all` has thousands of subscribers, each of which leaves alone. Connections
/// have rising numbers, so that most are added at the end.
type Subscribers<K, V> = Vec<(K, V)>;

impl<K, V> Default for SubscriptionIndex<K, V> {
    fn default() -> Self {
        Self {
            exact: HashMap::new(),
            prefix: HashMap::new(),
        }
    }
}

impl<K: Ord + Copy, V: Clone> SubscriptionIndex<K, V> {
    /// Adds a subscription. A filter that it has twice is there once.
    pub(crate) fn insert(&mut self, filters: &[TopicFilter], key: K, value: &V) {
        for filter in filters {
            let side = self.side(filter);
            let subscribers = side.entry(filter.topic().as_str().into()).or_default();
            if let Err(place) = subscribers.binary_search_by_key(&key, |(key, _)| *key) {
                subscribers.insert(place, (key, value.clone()));
            }
        }
    }

    /// Removes a subscription that was added with these filters.
    pub(crate) fn remove(&mut self, filters: &[TopicFilter], key: K) {
        for filter in filters {
            let topic = filter.topic().as_str();
            let side = self.side(filter);
            if let Some(subscribers) = side.get_mut(topic) {
                if let Ok(place) = subscribers.binary_search_by_key(&key, |(key, _)| *key) {
                    subscribers.remove(place);
                }
                if subscribers.is_empty() {
                    side.remove(topic);
                }
            }
        }
    }

    fn side(&mut self, filter: &TopicFilter) -> &mut HashMap<Box<str>, Subscribers<K, V>> {
        match filter {
            TopicFilter::Exact(_) => &mut self.exact,
            TopicFilter::Prefix(_) => &mut self.prefix,
        }
    }

    /// Returns the subscriptions that take `topic`: one with several filters once for each that
    /// matches.
    pub(crate) fn subscribers(&self, topic: &Topic) -> impl Iterator<Item = &(K, V)> {
        let text = topic.as_str();
        let ends = text.match_indices('/').map(|(at, _)| at);
        let ends = ends.chain([text.len()]);
        let most = match self.prefix.is_empty() {
            true => 0,
            false => usize::MAX,
        };
        let prefixes = ends
            .take(most)
            .filter_map(move |end| self.prefix.get(&text[..end]));
        self.exact.get(text).into_iter().chain(prefixes).flatten()
    }

    /// Returns how many subscriptions take `topic`.
    pub(crate) fn count(&self, topic: &Topic) -> usize {
        let mut keys: Vec<K> = self.subscribers(topic).map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter() -> impl Strategy<Value = TopicFilter> {
        (any::<bool>(), "[ab](/[ab]){0,3}").prop_map(|(prefix, text)| {
            let topic = text.parse().unwrap();
            if prefix {
                TopicFilter::Prefix(topic)
            } else {
                TopicFilter::Exact(topic)
            }
        })
    }

    proptest! {
        #[test]
        fn it_finds_what_matching_one_by_one_finds(
            subscriptions in prop::collection::vec((prop::collection::vec(filter(), 1..4), any::<bool>()), 0..12),
            topic in "[ab](/[ab]){0,3}",
        ) {
            let topic: Topic = topic.parse().unwrap();
            let mut index = SubscriptionIndex::default();
            // Added from both ends, so that keys do not only rise.
            let (even, odd): (Vec<usize>, Vec<usize>) = (0..subscriptions.len()).partition(|n| n % 2 == 0);
            for key in even.into_iter().chain(odd.into_iter().rev()) {
                index.insert(&subscriptions[key].0, key, &format!("value {key}"));
            }
            let mut expected = Vec::new();
            for (key, (filters, gone)) in subscriptions.iter().enumerate() {
                if *gone {
                    index.remove(filters, key);
                } else if filters.iter().any(|filter| filter.matches(&topic)) {
                    expected.push((key, format!("value {key}")));
                }
            }
            prop_assert_eq!(index.count(&topic), expected.len());
            let mut found: Vec<_> = index.subscribers(&topic).cloned().collect();
            found.sort_unstable();
            found.dedup();
            prop_assert_eq!(found, expected);
            for (key, (filters, _)) in subscriptions.iter().enumerate() {
                index.remove(filters, key);
            }
            prop_assert!(index.exact.is_empty() && index.prefix.is_empty());
        }
    }
}
