//! Bounds the bytes of files that are on their way to minions.
//!
//! A minion asks for a part while it takes in another, and for a third one when the first has arrived. So a part that was sent
//! keeps its room until the second request after its own; a minion that is silent gives it back after [`LEASE`]. A minion whose
//! requests wait for room holds none: otherwise a hundred that wait would hold all of it until their leases end. So the memory that parts take, and the time for which other
//! messages wait behind them, do not grow with the number of minions. Room is given in the order in which it was asked for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_messages::{MAX_PART, MinionId};
use saline_protocol::transport::{Clock, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::no_answer::WAIT;

/// The most bytes that are on their way.
const WINDOW: usize = 4 * 1024 * 1024;

/// How many parts one minion has on their way at most: it asks for one while it takes in another.
const PARTS: usize = 2;

/// How long a part keeps its room of a minion that asks for no more: it is silent, or has the whole file.
const LEASE: Duration = Duration::from_millis(500);

/// How often leases are looked at while somebody waits.
const SWEEP: Duration = Duration::from_millis(100);

/// The most bytes of a part. A whole window has room for sixteen of them.
const LARGEST: usize = 256 * 1024;

/// The bytes of files that are on their way to minions.
#[derive(Debug)]
pub(super) struct SendingWindow {
    clock: Clock,
    room: Arc<Semaphore>,
    minions: Mutex<HashMap<MinionId, MinionParts>>,
}

/// What is on its way to a minion, and what it waits for.
#[derive(Debug, Default)]
struct MinionParts {
    /// The parts that were sent, the oldest first.
    sent: VecDeque<SentPart>,
    /// How many of its requests are being answered.
    requests: usize,
}

impl MinionParts {
    /// Gives back the room of the parts that have arrived, as its requests tell: of these and of the parts there are no more
    /// than [`PARTS`].
    fn give_back_arrived(&mut self) {
        while !self.sent.is_empty() && self.sent.len() + self.requests > PARTS {
            self.sent.pop_front();
        }
    }
}

/// A request for a part that is being answered.
#[derive(Debug)]
struct OpenRequest<'w> {
    window: &'w SendingWindow,
    id: &'w MinionId,
}

/// The room for a part that is read now.
#[derive(Debug)]
pub(super) struct Room<'w> {
    request: OpenRequest<'w>,
    permit: OwnedSemaphorePermit,
}

impl Room<'_> {
    /// Notes that the part was sent, which has so many bytes: the rest of the room is given back.
    pub(super) fn sent(mut self, bytes: usize) {
        let surplus = self.permit.num_permits().saturating_sub(bytes);
        drop(self.permit.split(surplus));
        let OpenRequest { window, id } = self.request;
        let until = window.clock.after(LEASE);
        let part = SentPart {
            until,
            _room: self.permit,
        };
        let mut minions = window.lock();
        let minion = minions.entry(id.clone()).or_default();
        minion.sent.push_back(part);
        drop(minions);
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        let mut minions = self.window.lock();
        if let Some(minion) = minions.get_mut(self.id) {
            minion.requests = minion.requests.saturating_sub(1);
            if minion.requests == 0 && minion.sent.is_empty() {
                minions.remove(self.id);
            }
        }
    }
}

/// A part that was sent.
#[derive(Debug)]
struct SentPart {
    /// The end of its lease.
    until: Instant,
    _room: OwnedSemaphorePermit,
}

impl SendingWindow {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            room: Arc::new(Semaphore::new(WINDOW)),
            minions: Mutex::default(),
        }
    }

    /// Returns the most bytes of a part of which a minion wants so many.
    pub(super) fn part_size(wanted: u32) -> usize {
        usize::try_from(wanted)
            .unwrap_or(LARGEST)
            .clamp(1, LARGEST.min(MAX_PART))
    }

    /// Takes room for a part of so many bytes to a minion, which has as many requests and parts on their way as it may: its
    /// oldest part has arrived, if there are more. Returns none when there is no room for a while.
    ///
    /// # Cancel safety
    /// The place in the queue is lost when the future is dropped.
    pub(super) async fn room_for<'w>(&'w self, id: &'w MinionId, bytes: usize) -> Option<Room<'w>> {
        let request = self.begin(id);
        let bytes = u32::try_from(bytes.min(WINDOW)).unwrap_or(u32::MAX);
        let mut acquiring = std::pin::pin!(Arc::clone(&self.room).acquire_many_owned(bytes));
        let end = self.clock.after(WAIT);
        loop {
            tokio::select! {
                biased;
                // The semaphore is never closed.
                room = &mut acquiring => {
                    return room.ok().map(|permit| Room { request, permit });
                }
                () = self.clock.pause(SWEEP) => {
                    self.sweep();
                    if self.clock.now() > end {
                        return None;
                    }
                }
            }
        }
    }

    /// Notes that a request of a minion is being answered, until the result is dropped.
    fn begin<'w>(&'w self, id: &'w MinionId) -> OpenRequest<'w> {
        let mut minions = self.lock();
        let minion = minions.entry(id.clone()).or_default();
        minion.requests += 1;
        minion.give_back_arrived();
        OpenRequest { window: self, id }
    }

    fn sweep(&self) {
        let now = self.clock.now();
        let mut minions = self.lock();
        minions.retain(|_, minion| {
            let sent = &mut minion.sent;
            while sent.front().is_some_and(|part| part.until < now) {
                sent.pop_front();
            }
            !sent.is_empty() || minion.requests > 0
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<MinionId, MinionParts>> {
        // Every change under this lock is complete in one step, so a poisoned lock is still valid.
        self.minions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> MinionId {
        MinionId::parse(&format!("m{number}")).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_minion_that_goes_on_gives_its_room_back_and_a_silent_one_after_a_while() {
        let window = SendingWindow::new(Clock);
        for number in 0..WINDOW / LARGEST {
            let id = id(number);
            window.room_for(&id, LARGEST).await.unwrap().sent(LARGEST);
        }
        let began = Clock.now();
        // A second part of a minion keeps the first one's room.
        let first = id(0);
        let room = window.room_for(&first, LARGEST).await.unwrap();
        assert!(
            Clock.now() - began >= LEASE,
            "there was room for more than the window"
        );
        room.sent(LARGEST);
        // All leases of the others have ended.
        for number in 1..WINDOW / LARGEST {
            let id = id(number);
            window.room_for(&id, LARGEST).await.unwrap().sent(LARGEST);
        }
        let began = Clock.now();
        let room = window.room_for(&first, LARGEST).await;
        drop(room.unwrap());
        assert!(Clock.now() - began <= LEASE + 2 * SWEEP);
    }

    /// Two requests of each minion are under way, as those of a fetch are, and far more minions fetch than have room at once.
    #[tokio::test(start_paused = true)]
    async fn minions_that_wait_hold_no_room_so_many_of_them_wait_for_no_lease() {
        let window = Arc::new(SendingWindow::new(Clock));
        let began = Clock.now();
        let mut fetches = tokio::task::JoinSet::new();
        for number in (0..100).flat_map(|number| [number, number]) {
            let (window, id) = (Arc::clone(&window), id(number));
            fetches.spawn(async move {
                for _ in 0..200 {
                    let room = window.room_for(&id, LARGEST).await.unwrap();
                    tokio::task::yield_now().await;
                    room.sent(LARGEST);
                }
            });
        }
        while let Some(ended) = fetches.join_next().await {
            ended.unwrap();
        }
        // The last two parts of each keep their room for a lease, as no request follows them.
        let last = LEASE + SWEEP;
        let most = last * u32::try_from(2 * 100 * LARGEST / WINDOW + 1).unwrap();
        let passed = Clock.now() - began;
        assert!(passed <= most, "{passed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_file_takes_no_more_room_than_it_has_bytes() {
        let window = SendingWindow::new(Clock);
        let began = Clock.now();
        for number in 0..10 * WINDOW / LARGEST {
            let id = id(number);
            window.room_for(&id, LARGEST).await.unwrap().sent(1_000);
        }
        assert_eq!(Clock.now(), began);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_too_long_is_asked_to_come_again() {
        let window = SendingWindow::new(Clock);
        let first = id(0);
        let _all = window.room_for(&first, WINDOW).await.unwrap();
        assert!(window.room_for(&id(1), 1).await.is_none());
    }

    #[test]
    fn parts_have_a_size() {
        assert_eq!(SendingWindow::part_size(0), 1);
        assert_eq!(SendingWindow::part_size(1_000), 1_000);
        assert_eq!(SendingWindow::part_size(u32::MAX), LARGEST);
    }
}
