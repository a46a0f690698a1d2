//! The turns of polls: few of them read the keys at once, and the places of those that wait for that are shared by
//! sources.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_protocol::transport::{SourceNetwork, SourcePlaces};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// The largest number of polls that read the keys at once. Each takes a thread, and waits there for the one before it.
const AT_ONCE: usize = 16;

/// The largest number of polls that wait for their turn. For one more, the source that has most of them gives one up.
const WAITING: usize = 256;

/// The turns of all polls, which all listeners share.
#[derive(Debug)]
pub struct PollTurns {
    turns: Semaphore,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    sources: SourcePlaces<u64>,
    given_up: HashMap<u64, Arc<Notify>>,
    /// The number of the last poll.
    last: u64,
}

/// The place of a poll that waits for its turn, given back when it is dropped.
struct Place<'a> {
    turns: &'a PollTurns,
    number: u64,
    given_up: Arc<Notify>,
}

impl Default for PollTurns {
    fn default() -> Self {
        Self {
            turns: Semaphore::new(AT_ONCE),
            waiting: Mutex::default(),
        }
    }
}

impl PollTurns {
    /// Waits for a turn of a poll from this source. Returns none when the poll has no place, or has given it up for
    /// another source.
    ///
    /// # Cancel safety
    /// The place is given back when the future is dropped.
    pub(super) async fn take(&self, source: Option<SourceNetwork>) -> Option<SemaphorePermit<'_>> {
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

    fn take_place(&self, source: Option<SourceNetwork>) -> Option<Place<'_>> {
        let mut waiting = self.lock();
        if waiting.sources.len() >= WAITING {
            let oldest = *waiting.sources.eviction_candidate(source)?;
            waiting.sources.release(&oldest);
            if let Some(given_up) = waiting.given_up.remove(&oldest) {
                given_up.notify_one();
            }
        }
        waiting.last += 1;
        let (number, given_up) = (waiting.last, Arc::new(Notify::new()));
        waiting.sources.take(number, source);
        waiting.given_up.insert(number, Arc::clone(&given_up));
        Some(Place {
            turns: self,
            number,
            given_up,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.turns.lock();
        waiting.sources.release(&self.number);
        waiting.given_up.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::task::Poll;

    use super::*;

    fn source(number: u8) -> Option<SourceNetwork> {
        let address = SocketAddr::from(([192, 0, 2, number], 1));
        Some(SourceNetwork::of(address))
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
    async fn one_source_does_not_keep_the_polls_of_others_out() {
        let turns = PollTurns::default();
        let mut reading = Vec::new();
        for _ in 0..AT_ONCE {
            reading.push(turns.take(source(1)).await.unwrap());
        }
        let take = |number| Box::pin(turns.take(source(number)));
        let mut strangers: Vec<_> = (0..WAITING).map(|_| take(1)).collect();
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
