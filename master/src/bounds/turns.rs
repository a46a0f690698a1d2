//! Turns at what only few requests may do at once. The places of those that wait for a turn are shared by sources.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_protocol::transport::{Source, SourcePlaces};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// Turns of requests, which all listeners share.
#[derive(Debug)]
pub struct Turns {
    turns: Semaphore,
    /// The largest number of requests that wait for a turn.
    places: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    sources: SourcePlaces<u64>,
    given_up: HashMap<u64, Arc<Notify>>,
    /// The number of the request that came last.
    last: u64,
}

/// The place of a request that waits for its turn, given back when it is dropped.
struct TurnPlace<'a> {
    turns: &'a Turns,
    number: u64,
    given_up: Arc<Notify>,
}

impl Turns {
    /// Creates turns of which `at_once` are given at a time, and for which `places` requests may wait.
    pub(crate) fn new(at_once: usize, places: usize) -> Self {
        Self {
            turns: Semaphore::new(at_once),
            places,
            waiting: Mutex::default(),
        }
    }

    /// Waits for the turn of a request from this source. Returns none when there is no place for it to wait in, or it
    /// has given its place up for another source.
    ///
    /// # Cancel safety
    /// The place is given back when the future is dropped.
    pub(crate) async fn take(&self, source: Source) -> Option<SemaphorePermit<'_>> {
        if let Ok(turn) = self.turns.try_acquire() {
            return Some(turn);
        }
        let place = self.take_place(source)?;
        tokio::select! {
            // The semaphore is never closed.
            turn = self.turns.acquire() => turn.ok(),
            () = place.given_up.notified() => None,
        }
    }

    fn take_place(&self, source: Source) -> Option<TurnPlace<'_>> {
        let mut waiting = self.lock();
        let number = waiting.last + 1;
        let evicted = waiting
            .sources
            .take_one_of(self.places, number, source)
            .ok()?;
        if let Some(given_up) = evicted.and_then(|oldest| waiting.given_up.remove(&oldest)) {
            given_up.notify_one();
        }
        waiting.last = number;
        let given_up = Arc::new(Notify::new());
        waiting.given_up.insert(number, Arc::clone(&given_up));
        Some(TurnPlace {
            turns: self,
            number,
            given_up,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TurnPlace<'_> {
    fn drop(&mut self) {
        let mut waiting = self.turns.lock();
        waiting.sources.release(&self.number);
        waiting.given_up.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    const AT_ONCE: usize = 2;
    const PLACES: usize = 8;

    fn source(number: u8) -> Source {
        Source::User(number.into())
    }

    /// Looks at each of these once, and returns those that have ended, each with whether it got a turn.
    async fn ended<'a, F: Future<Output = Option<SemaphorePermit<'a>>>>(
        polls: &mut [std::pin::Pin<Box<F>>],
    ) -> Vec<(usize, bool)> {
        std::future::poll_fn(|context| {
            let polls = polls.iter_mut().enumerate();
            let looked = polls.map(|(at, poll)| (at, poll.as_mut().poll(context)));
            let ended = looked.filter_map(|(at, looked)| match looked {
                Poll::Ready(turn) => Some((at, turn.is_some())),
                Poll::Pending => None,
            });
            Poll::Ready(ended.collect())
        })
        .await
    }

    #[tokio::test]
    async fn one_source_does_not_keep_the_requests_of_others_out() {
        let turns = Turns::new(AT_ONCE, PLACES);
        let mut reading = Vec::new();
        for _ in 0..AT_ONCE {
            reading.push(turns.take(source(1)).await.unwrap());
        }
        let take = |number| Box::pin(turns.take(source(number)));
        let mut strangers: Vec<_> = (0..PLACES).map(|_| take(1)).collect();
        assert_eq!(ended(&mut strangers).await, []);
        assert!(turns.take(source(1)).await.is_none(), "it has them all");
        let mut other = [take(2)];
        assert_eq!(ended(&mut other).await, []);
        assert_eq!(ended(&mut strangers[..2]).await, [(0, false)]);
        // Those that wait get their turns, and the places are given back.
        drop(strangers);
        drop(reading);
        assert_eq!(ended(&mut other).await, [(0, true)]);
        drop(other);
        assert!(turns.lock().sources.is_empty() && turns.lock().given_up.is_empty());
        assert_eq!(turns.turns.available_permits(), AT_ONCE);
    }
}
