//! Polls of minions whose keys wait for an operator: each is answered when the operator has decided.
//!
//! The latest poll of each minion is held, 1,024 at most, for eight seconds. The answer to `saline-key -a` waits up
//! to a second for the minions that it accepted to be present, so that the next command finds them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_messages::MinionId;
use saline_protocol::transport::{Clock, Instant, Source, SourcePlaces};
use tokio::sync::Notify;

/// The largest number of polls that wait at once. For one more, the source with most of them gives a place up; a poll
/// without a place is answered at once, and asked again.
const MAX_POLLS: usize = 1024;

/// How long a poll waits for a decision. Minions give a poll up after ten seconds.
const WAIT: Duration = Duration::from_secs(8);

/// For how long after the end of a poll its minion counts as waiting: it asks again.
const BETWEEN_POLLS: Duration = Duration::from_secs(1);

/// A minion and the key that it presents: a stranger with another key does not take the minion's place.
type Waiter = (MinionId, [u8; 32]);

/// The polls that wait, one for each minion. Clones share them.
#[derive(Debug, Clone)]
pub struct WaitingPolls {
    clock: Clock,
    shared: Arc<Mutex<PollTable>>,
}

#[derive(Debug, Default)]
struct PollTable {
    waiting: HashMap<Waiter, Waiting>,
    /// The sources of those that wait.
    sources: SourcePlaces<Waiter>,
    /// Whether the master stops, so that no poll may wait.
    has_closed: bool,
}

impl PollTable {
    /// Takes a place for a poll, also one of another source. Returns false when there is none.
    fn take_place(&mut self, waiter: &Waiter, source: Source, now: Instant) -> bool {
        let sources = &mut self.sources;
        if sources.len() >= MAX_POLLS {
            self.waiting.retain(|waiter, waiting| {
                let stays = !waiting.is_over(now);
                if !stays {
                    sources.release(waiter);
                }
                stays
            });
        }
        let Ok(evicted) = sources.take_one_of(MAX_POLLS, waiter.clone(), source) else {
            return false;
        };
        if let Some(waiting) = evicted.and_then(|oldest| self.waiting.remove(&oldest)) {
            waiting.decided.notify_one();
        }
        true
    }
}

/// A poll that waits, or has ended a moment ago.
#[derive(Debug)]
struct Waiting {
    decided: Arc<Notify>,
    is_deleted: Arc<AtomicBool>,
    ended: Option<Instant>,
}

impl Waiting {
    fn is_over(&self, now: Instant) -> bool {
        self.ended
            .is_some_and(|ended| now.saturating_duration_since(ended) > BETWEEN_POLLS)
    }
}

/// The place of a poll that may wait.
#[derive(Debug)]
pub struct PollPlace {
    polls: WaitingPolls,
    waiter: Waiter,
    decided: Arc<Notify>,
    is_deleted: Arc<AtomicBool>,
}

impl WaitingPolls {
    /// Creates the state in which no poll waits.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            shared: Arc::default(),
        }
    }

    /// Takes a place for a poll of `id` with this key from `source`, before the key is looked up, also from an earlier
    /// poll of this minion, whose connection may be gone. Returns none when too many polls wait.
    pub fn take_place(
        &self,
        id: &MinionId,
        identity: [u8; 32],
        source: Source,
    ) -> Option<PollPlace> {
        let waiter = (id.clone(), identity);
        let mut shared = self.lock();
        if shared.has_closed || !shared.take_place(&waiter, source, self.clock.now()) {
            return None;
        }
        let decided = Arc::new(Notify::new());
        let is_deleted = Arc::new(AtomicBool::new(false));
        let waiting = Waiting {
            decided: Arc::clone(&decided),
            is_deleted: Arc::clone(&is_deleted),
            ended: None,
        };
        if let Some(earlier) = shared.waiting.insert(waiter.clone(), waiting) {
            earlier.decided.notify_one();
        }
        Some(PollPlace {
            polls: self.clone(),
            waiter,
            decided,
            is_deleted,
        })
    }

    /// Wakes the poll of a minion whose key was changed. Returns whether one waits, or has ended a moment ago, so
    /// that the minion is about to hear of the change.
    pub fn decided(&self, id: &MinionId, identity: [u8; 32]) -> bool {
        let now = self.clock.now();
        match self.lock().waiting.get(&(id.clone(), identity)) {
            // The permit stays if the poll only looks the key up now.
            Some(waiting) => {
                waiting.decided.notify_one();
                !waiting.is_over(now)
            }
            None => false,
        }
    }

    /// Wakes the poll of a minion whose key was deleted. It must not present the key again: its minion may be gone.
    pub fn deleted(&self, id: &MinionId, identity: [u8; 32]) {
        if let Some(waiting) = self.lock().waiting.get(&(id.clone(), identity)) {
            waiting.is_deleted.store(true, Ordering::Relaxed);
            waiting.decided.notify_one();
        }
    }

    /// Has all polls answered, and lets no more wait.
    pub fn close(&self) {
        let mut shared = self.lock();
        shared.has_closed = true;
        for waiting in shared.waiting.values() {
            waiting.decided.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, PollTable> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PollPlace {
    /// Waits until the key was changed since this place was taken, at most for a few seconds.
    ///
    /// # Cancel safety
    /// The place is given back when it is dropped.
    pub async fn decided(&self) {
        let clock = self.polls.clock;
        // Whether in time or not: the key is looked up again.
        let _ = clock
            .deadline(clock.after(WAIT), self.decided.notified())
            .await;
    }
}

impl PollPlace {
    /// Whether the key was deleted since this place was taken.
    pub fn is_deleted(&self) -> bool {
        self.is_deleted.load(Ordering::Relaxed)
    }
}

impl Drop for PollPlace {
    fn drop(&mut self) {
        let now = self.polls.clock.now();
        let mut shared = self.polls.lock();
        if let Some(waiting) = shared.waiting.get_mut(&self.waiter)
            && Arc::ptr_eq(&waiting.decided, &self.decided)
        {
            waiting.ended = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [1; 32];

    fn id(name: &str) -> MinionId {
        MinionId::parse(name).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_is_woken_by_the_decision_about_its_minion() {
        let polls = WaitingPolls::new(Clock);
        let place = polls.take_place(&id("a"), KEY, Source::Process).unwrap();
        let other = polls.take_place(&id("b"), KEY, Source::Process).unwrap();
        let began = Clock.now();
        // Before it waits: the key is being looked up.
        assert!(polls.decided(&id("a"), KEY));
        place.decided().await;
        assert_eq!(Clock.now(), began);
        other.decided().await;
        assert_eq!(Clock.now() - began, WAIT);
        drop(place);
        Clock.pause(BETWEEN_POLLS).await;
        assert!(polls.decided(&id("a"), KEY), "it is about to ask again");
        Clock.pause(Duration::from_millis(1)).await;
        assert!(!polls.decided(&id("a"), KEY));
        assert!(polls.take_place(&id("a"), KEY, Source::Process).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_knows_that_its_key_was_deleted() {
        let polls = WaitingPolls::new(Clock);
        let place = polls.take_place(&id("a"), KEY, Source::Process).unwrap();
        polls.deleted(&id("a"), [2; 32]);
        assert!(!place.is_deleted());
        polls.deleted(&id("a"), KEY);
        let began = Clock.now();
        place.decided().await;
        assert_eq!(Clock.now(), began);
        assert!(place.is_deleted());
        let next = polls.take_place(&id("a"), KEY, Source::Process).unwrap();
        assert!(!next.is_deleted());
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_poll_takes_the_place_of_one_whose_connection_may_be_gone() {
        let polls = WaitingPolls::new(Clock);
        let earlier = polls.take_place(&id("a"), KEY, Source::Process).unwrap();
        let later = polls.take_place(&id("a"), KEY, Source::Process).unwrap();
        let began = Clock.now();
        earlier.decided().await;
        assert_eq!(Clock.now(), began, "the earlier one is answered");
        drop(earlier);
        assert!(polls.decided(&id("a"), KEY), "the later one waits still");
        later.decided().await;
        assert_eq!(Clock.now(), began);
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_with_another_key_leaves_the_first_one_its_place() {
        let polls = WaitingPolls::new(Clock);
        let place = polls.take_place(&id("a"), KEY, Source::Process).unwrap();
        let other = polls
            .take_place(&id("a"), [2; 32], Source::Process)
            .unwrap();
        let began = Clock.now();
        assert!(polls.decided(&id("a"), KEY));
        place.decided().await;
        assert_eq!(Clock.now(), began);
        other.decided().await;
        assert_eq!(Clock.now() - began, WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn the_polls_that_wait_are_bounded() {
        let polls = WaitingPolls::new(Clock);
        let take_all = || {
            let taken = (0..2 * MAX_POLLS)
                .filter_map(|n| polls.take_place(&id(&format!("m{n}")), KEY, Source::Process));
            taken.collect::<Vec<_>>()
        };
        let places = take_all();
        assert_eq!(places.len(), MAX_POLLS);
        assert!(
            polls
                .take_place(&id("other"), KEY, Source::Process)
                .is_none()
        );
        drop(places);
        Clock.pause(2 * BETWEEN_POLLS).await;
        assert!(
            polls
                .take_place(&id("other"), KEY, Source::Process)
                .is_some()
        );
        assert_eq!(polls.lock().waiting.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_source_does_not_take_the_places_of_others() {
        let source = Source::User;
        let polls = WaitingPolls::new(Clock);
        let take = |n: usize, number| polls.take_place(&id(&format!("m{n}")), KEY, source(number));
        let strangers: Vec<_> = (0..MAX_POLLS).map(|n| take(n, 1).unwrap()).collect();
        assert!(take(MAX_POLLS, 1).is_none());
        let began = Clock.now();
        let other = take(MAX_POLLS, 2).unwrap();
        strangers[0].decided().await;
        assert_eq!(Clock.now(), began, "the oldest gave its place up");
        assert!(polls.decided(&id(&format!("m{MAX_POLLS}")), KEY));
        other.decided().await;
        drop(strangers);
        assert_eq!(polls.lock().waiting.len(), MAX_POLLS);
        assert_eq!(polls.lock().sources.len(), MAX_POLLS);
    }

    #[tokio::test(start_paused = true)]
    async fn none_waits_while_the_master_stops() {
        let polls = WaitingPolls::new(Clock);
        let place = polls.take_place(&id("a"), KEY, Source::Process).unwrap();
        polls.close();
        let began = Clock.now();
        place.decided().await;
        assert_eq!(Clock.now(), began);
        assert!(polls.take_place(&id("b"), KEY, Source::Process).is_none());
    }
}
