//! Greetings that wait to be accepted. Their number is bounded, and no user keeps the others out.

use std::collections::BTreeMap;
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

#[derive(Debug, Default)]
struct Inner {
    waiting: BTreeMap<u64, WaitingHello>,
    places: SourcePlaces<u64>,
    last: u64,
}

impl HelloQueue {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Each change is consistent by itself, so a panic elsewhere does not spoil it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a greeting. When there are too many, the user who has most of them loses the oldest of his. Returns the one
    /// that found no place.
    pub(crate) fn push(&self, hello: WaitingHello) -> Option<WaitingHello> {
        let mut inner = self.inner();
        let number = inner.last + 1;
        let Ok(evicted) = inner.places.take_one_of(WAITING, number, hello.source) else {
            return Some(hello);
        };
        inner.last = number;
        inner.waiting.insert(number, hello);
        let evicted = evicted.and_then(|evicted| inner.waiting.remove(&evicted));
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
                let first = inner.waiting.pop_first();
                first.map(|(number, hello)| {
                    inner.places.release(&number);
                    hello
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
        let mut inner = self.inner();
        inner.places = SourcePlaces::default();
        std::mem::take(&mut inner.waiting).into_values().collect()
    }
}
