//! Who asked for what.

use std::collections::HashMap;
use std::sync::Arc;

use saline_protocol::transport::{Topic, TopicFilter};

use crate::connection::ServerLink;

/// A subscription, found by one of its filters.
#[derive(Debug)]
pub(crate) struct Taker {
    /// The connection's number and the subscription's.
    key: (u64, u64),
    pub(crate) link: Arc<ServerLink>,
}

impl Taker {
    /// The client's number for the subscription.
    pub(crate) fn subscription(&self) -> u64 {
        self.key.1
    }
}

/// Sorted by key, because `job/all` has thousands, each of which goes alone. Connections come with
/// rising numbers, so that most are added at the end.
type Takers = Vec<Taker>;

/// From topics to subscriptions, so that a publication costs as much as it has takers.
#[derive(Debug, Default)]
pub(crate) struct Index {
    exact: HashMap<Box<str>, Takers>,
    prefix: HashMap<Box<str>, Takers>,
}

impl Index {
    pub(crate) fn insert(&mut self, link: &Arc<ServerLink>, id: u64, filters: &[TopicFilter]) {
        let key = (link.number, id);
        for filter in filters {
            let takers = self.side(filter);
            let takers = takers.entry(filter.topic().as_str().into()).or_default();
            // A filter that is given twice is there once.
            if let Err(place) = takers.binary_search_by_key(&key, |taker| taker.key) {
                let link = Arc::clone(link);
                takers.insert(place, Taker { key, link });
            }
        }
    }

    pub(crate) fn remove(&mut self, link: &ServerLink, id: u64, filters: &[TopicFilter]) {
        let key = (link.number, id);
        for filter in filters {
            let name = filter.topic().as_str();
            let side = self.side(filter);
            if let Some(takers) = side.get_mut(name) {
                if let Ok(place) = takers.binary_search_by_key(&key, |taker| taker.key) {
                    takers.remove(place);
                }
                if takers.is_empty() {
                    side.remove(name);
                }
            }
        }
    }

    fn side(&mut self, filter: &TopicFilter) -> &mut HashMap<Box<str>, Takers> {
        match filter {
            TopicFilter::Exact(_) => &mut self.exact,
            TopicFilter::Prefix(_) => &mut self.prefix,
        }
    }

    /// Those that take `topic`. A subscription with several filters is among them for each that
    /// matches.
    pub(crate) fn takers(&self, topic: &Topic) -> impl Iterator<Item = &Taker> {
        let name = topic.as_str();
        let ends = name.match_indices('/').map(|(at, _)| at);
        let ends = ends.chain([name.len()]);
        let most = if self.prefix.is_empty() {
            0
        } else {
            usize::MAX
        };
        let beneath = ends
            .take(most)
            .filter_map(move |end| self.prefix.get(&name[..end]));
        self.exact.get(name).into_iter().chain(beneath).flatten()
    }

    /// How many subscriptions take `topic`.
    pub(crate) fn count(&self, topic: &Topic) -> usize {
        let mut keys: Vec<_> = self.takers(topic).map(|taker| taker.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.len()
    }
}
