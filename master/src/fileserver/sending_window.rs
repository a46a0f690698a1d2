//! Bounds the bytes of files that are on their way to minions.
//!
//! A part that was sent keeps its room until its minion asks for another one, which it does when the part has arrived; a
//! minion that is silent gives it back after [`LEASE`]. So the memory that parts take, and the time for which other
//! messages wait behind them, do not grow with the number of minions. Room is given in the order in which it was asked for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_messages::{MAX_PART, MinionId};
use saline_protocol::transport::{Clock, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::WAIT;

/// The most bytes that are on their way.
const WINDOW: usize = 4 * 1024 * 1024;

/// How many parts one minion has on their way at most: it asks for one while it takes in another.
const PARTS: usize = 2;

/// How long a part of a silent minion keeps its room.
const LEASE: Duration = Duration::from_secs(2);

/// How often leases are looked at while somebody waits.
const SWEEP: Duration = Duration::from_millis(250);

/// The most bytes of a part. A whole window has room for sixteen of them.
const LARGEST: usize = 256 * 1024;

/// The bytes of files that are on their way to minions.
#[derive(Debug)]
pub(super) struct SendingWindow {
    clock: Clock,
    room: Arc<Semaphore>,
    sent: Mutex<SentParts>,
}

/// The parts that were sent to each minion, the oldest first.
type SentParts = HashMap<MinionId, VecDeque<SentPart>>;

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
            sent: Mutex::default(),
        }
    }

    /// Returns the most bytes of a part of which a minion wants so many.
    pub(super) fn part_size(wanted: u32) -> usize {
        usize::try_from(wanted)
            .unwrap_or(LARGEST)
            .clamp(1, LARGEST.min(MAX_PART))
    }

    /// Takes room for a part of so many bytes to a minion. Its oldest part, if it has as many as it may, has arrived. Returns
    /// none when there is no room for a while.
    ///
    /// # Cancel safety
    /// The place in the queue is lost when the future is dropped.
    pub(super) async fn room_for(
        &self,
        id: &MinionId,
        bytes: usize,
    ) -> Option<OwnedSemaphorePermit> {
        self.arrived(id);
        let bytes = u32::try_from(bytes.min(WINDOW)).unwrap_or(u32::MAX);
        let mut acquiring = std::pin::pin!(Arc::clone(&self.room).acquire_many_owned(bytes));
        let end = self.clock.after(WAIT);
        loop {
            tokio::select! {
                biased;
                // The semaphore is never closed.
                room = &mut acquiring => return room.ok(),
                () = self.clock.pause(SWEEP) => {
                    self.sweep();
                    if self.clock.now() > end {
                        return None;
                    }
                }
            }
        }
    }

    /// Notes that a part was sent to a minion.
    pub(super) fn sent(&self, id: &MinionId, room: OwnedSemaphorePermit) {
        let until = self.clock.after(LEASE);
        self.lock()
            .entry(id.clone())
            .or_default()
            .push_back(SentPart { until, _room: room });
    }

    fn arrived(&self, id: &MinionId) {
        let mut sent = self.lock();
        if let Some(parts) = sent.get_mut(id) {
            while parts.len() >= PARTS {
                parts.pop_front();
            }
        }
    }

    fn sweep(&self) {
        let now = self.clock.now();
        let mut sent = self.lock();
        sent.retain(|_, parts| {
            while parts.front().is_some_and(|part| part.until < now) {
                parts.pop_front();
            }
            !parts.is_empty()
        });
    }

    fn lock(&self) -> MutexGuard<'_, SentParts> {
        // Every change under this lock is complete in one step, so a poisoned lock is still valid.
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
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
            let room = window.room_for(&id(number), LARGEST).await.unwrap();
            window.sent(&id(number), room);
        }
        let began = Clock.now();
        // A second part of a minion keeps the first one's room.
        let room = window.room_for(&id(0), LARGEST).await.unwrap();
        assert!(
            Clock.now() - began >= LEASE,
            "there was room for more than the window"
        );
        window.sent(&id(0), room);
        // All leases of the others have ended.
        for number in 1..WINDOW / LARGEST {
            let room = window.room_for(&id(number), LARGEST).await.unwrap();
            window.sent(&id(number), room);
        }
        let began = Clock.now();
        window.arrived(&id(0));
        let room = window.room_for(&id(0), LARGEST).await;
        drop(room.unwrap());
        assert!(Clock.now() - began <= LEASE + 2 * SWEEP);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_too_long_is_asked_to_come_again() {
        let window = SendingWindow::new(Clock);
        let _all = window.room_for(&id(0), WINDOW).await.unwrap();
        assert!(window.room_for(&id(1), 1).await.is_none());
    }

    #[test]
    fn parts_have_a_size() {
        assert_eq!(SendingWindow::part_size(0), 1);
        assert_eq!(SendingWindow::part_size(1_000), 1_000);
        assert_eq!(SendingWindow::part_size(u32::MAX), LARGEST);
    }
}
