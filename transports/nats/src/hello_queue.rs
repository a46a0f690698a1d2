//! Greetings that wait to be accepted. Their number is bounded, and no user keeps the others out.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_protocol::transport::{Source, SourcePlaces};
use tokio::sync::Notify;

use crate::client::Link;

/// Greetings that may wait at once.
const WAITING: usize = 1024;

/// A client that asks for a connection.
#[derive(Debug)]
pub(crate) struct WaitingHello {
    pub(crate) user: String,
    pub(crate) source: Source,
    /// The name of the connection.
    pub(crate) id: String,
    /// The link on which it asked.
    pub(crate) link: Arc<Link>,
}

/// The greetings of one server that wait.
#[derive(Debug, Default)]
pub(crate) struct HelloQueue {
    inner: Mutex<Inner>,
    arrived: Notify,
}

/// The user who asks, and the name of the connection.
type HelloKey = (String, String);

#[derive(Debug, Default)]
struct Inner {
    /// In the order in which they came.
    order: BTreeMap<u64, HelloKey>,
    waiting: HashMap<HelloKey, (u64, WaitingHello)>,
    places: SourcePlaces<HelloKey>,
    last: u64,
}

impl Inner {
    fn remove(&mut self, key: &HelloKey) -> Option<WaitingHello> {
        let (number, hello) = self.waiting.remove(key)?;
        self.order.remove(&number);
        Some(hello)
    }
}

impl HelloQueue {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Each change is consistent by itself, so a panic elsewhere does not spoil it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a greeting, unless it repeats one that waits. When there are too many, the user who has most of them loses the
    /// oldest of his. Returns the one that found no place.
    pub(crate) fn push(&self, hello: WaitingHello) -> Option<WaitingHello> {
        let key = (hello.user.clone(), hello.id.clone());
        let mut inner = self.inner();
        if inner.waiting.contains_key(&key) {
            return None;
        }
        let (number, source) = (inner.last + 1, hello.source);
        let Ok(evicted) = inner.places.take_one_of(WAITING, key.clone(), source) else {
            return Some(hello);
        };
        inner.last = number;
        inner.order.insert(number, key.clone());
        inner.waiting.insert(key, (number, hello));
        let evicted = evicted.and_then(|evicted| inner.remove(&evicted));
        drop(inner);
        self.arrived.notify_one();
        evicted
    }

    /// Waits for the next greeting.
    ///
    /// # Cancel safety
    /// No greeting is lost when the future is dropped.
    pub(crate) async fn next(&self) -> WaitingHello {
        loop {
            let first = {
                let mut inner = self.inner();
                let first = inner.order.first_key_value().map(|(_, key)| key.clone());
                first.and_then(|key| {
                    inner.places.release(&key);
                    inner.remove(&key)
                })
            };
            match first {
                Some(hello) => return hello,
                None => self.arrived.notified().await,
            }
        }
    }

    /// Takes everything that waits.
    pub(crate) fn clear(&self) -> Vec<WaitingHello> {
        let inner = std::mem::take(&mut *self.inner());
        let waiting = inner.waiting.into_values();
        waiting.map(|(_, hello)| hello).collect()
    }
}

#[cfg(test)]
mod tests {
    use saline_protocol::transport::Source;

    use super::*;

    fn hello(id: &str) -> WaitingHello {
        WaitingHello {
            user: "any".to_owned(),
            source: Source::User(1),
            id: id.to_owned(),
            link: Link::without_task(),
        }
    }

    #[tokio::test]
    async fn a_greeting_that_is_repeated_keeps_its_turn() {
        let queue = HelloQueue::default();
        for id in ["first", "second", "first", "first"] {
            assert!(queue.push(hello(id)).is_none());
        }
        assert_eq!(queue.next().await.id, "first");
        assert_eq!(queue.next().await.id, "second");
        assert!(queue.clear().is_empty());
    }

    #[test]
    fn one_that_waits_is_not_refused_when_it_asks_again() {
        let queue = HelloQueue::default();
        for number in 0..WAITING {
            assert!(queue.push(hello(&number.to_string())).is_none());
        }
        assert_eq!(
            queue.push(hello("one more")).map(|one| one.id),
            Some("one more".to_owned())
        );
        assert!(queue.push(hello("7")).is_none());
        assert_eq!(queue.clear().len(), WAITING);
    }
}
