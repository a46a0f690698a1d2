//! Who takes a topic: an index over filters, so that a publication costs as much as it has takers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use saline_protocol::transport::{Topic, TopicFilter};

/// From filters to takers.
#[derive(Debug)]
pub(crate) struct Interest<T> {
    exact: HashMap<Box<str>, Vec<T>>,
    prefix: HashMap<Box<str>, Vec<T>>,
}

impl<T> Default for Interest<T> {
    fn default() -> Self {
        Self {
            exact: HashMap::new(),
            prefix: HashMap::new(),
        }
    }
}

impl<T> Interest<T> {
    /// Adds a taker. One with several filters is found once for each that matches.
    pub(crate) fn insert(&mut self, filter: &TopicFilter, taker: T) {
        let (map, key) = self.place(filter);
        map.entry(key.into()).or_default().push(taker);
    }

    /// Removes one entry of a taker.
    pub(crate) fn remove(&mut self, filter: &TopicFilter, is_it: impl Fn(&T) -> bool) {
        let (map, key) = self.place(filter);
        if let Entry::Occupied(mut entry) = map.entry(key.into()) {
            if let Some(place) = entry.get().iter().position(is_it) {
                entry.get_mut().swap_remove(place);
            }
            if entry.get().is_empty() {
                entry.remove();
            }
        }
    }

    fn place<'a>(&mut self, filter: &'a TopicFilter) -> (&mut HashMap<Box<str>, Vec<T>>, &'a str) {
        match filter {
            TopicFilter::Exact(topic) => (&mut self.exact, topic.as_str()),
            TopicFilter::Prefix(topic) => (&mut self.prefix, topic.as_str()),
        }
    }

    /// The takers of `topic`.
    pub(crate) fn takers(&self, topic: &Topic) -> impl Iterator<Item = &T> {
        let text = topic.as_str();
        let ends = text.match_indices('/').map(|(at, _)| at);
        let ends = ends.chain(std::iter::once(text.len()));
        let prefixes = ends
            .take(if self.prefix.is_empty() {
                0
            } else {
                usize::MAX
            })
            .filter_map(move |end| self.prefix.get(&text[..end]));
        self.exact.get(text).into_iter().chain(prefixes).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filters() -> impl Strategy<Value = TopicFilter> {
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
            filters in prop::collection::vec(filters(), 0..20),
            gone in prop::collection::vec(any::<bool>(), 20),
            topic in "[ab](/[ab]){0,3}",
        ) {
            let topic: Topic = topic.parse().unwrap();
            let mut interest = Interest::default();
            for (number, filter) in filters.iter().enumerate() {
                interest.insert(filter, number);
            }
            let mut expected = Vec::new();
            for (number, filter) in filters.iter().enumerate() {
                if gone[number] {
                    interest.remove(filter, |other| *other == number);
                } else if filter.matches(&topic) {
                    expected.push(number);
                }
            }
            let mut found: Vec<_> = interest.takers(&topic).copied().collect();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
