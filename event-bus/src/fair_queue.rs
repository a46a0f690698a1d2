//! A queue that many sources share. Each source has room of its own and a turn of its own, so that one that queues without
//! end waits for itself, and delays every other source by one item.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The room in a [`FairQueue`], in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// The bytes that an item counts as at least.
    pub least: usize,
    /// The bytes that one source may have in the queue. A larger item counts as so many.
    pub share: usize,
    /// The bytes that all sources together may have in the queue.
    pub total: usize,
}

/// There is no room for an item now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// A queue of items of many sources, which are taken in turns: one item of each source that has some.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    room: Room,
    total: Arc<Semaphore>,
    lanes: Mutex<Lanes<K, T>>,
    filled: Notify,
}

#[derive(Debug)]
struct Lanes<K, T> {
    by_source: HashMap<K, Lane<T>>,
    /// The sources that have items, in the order of their turns.
    turns: VecDeque<K>,
}

#[derive(Debug)]
struct Lane<T> {
    items: VecDeque<Taken<T>>,
    room: Arc<Semaphore>,
}

/// An item that was taken from a queue. Its room comes back when it is dropped.
#[derive(Debug)]
pub struct Taken<T> {
    /// The item that was taken.
    pub item: T,
    _room: [OwnedSemaphorePermit; 2],
}

impl<K: Clone + Eq + Hash, T> FairQueue<K, T> {
    /// Creates an empty queue.
    pub fn new(room: Room) -> Self {
        Self {
            room,
            total: Arc::new(Semaphore::new(room.total)),
            lanes: Mutex::new(Lanes {
                by_source: HashMap::new(),
                turns: VecDeque::new(),
            }),
            filled: Notify::new(),
        }
    }

    /// Returns the number of items that wait.
    pub fn len(&self) -> usize {
        let lanes = self.lock();
        lanes.by_source.values().map(|lane| lane.items.len()).sum()
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Queues an item of `bytes` bytes when there is room for it: first in the share of its source, then in the queue.
    /// Items of one source stay in their order.
    ///
    /// # Cancel safety
    /// The item is queued or not.
    pub async fn push(&self, source: &K, bytes: usize, item: T) {
        let charge = self.charge(bytes);
        let own = self.room_of(source).acquire_many_owned(charge).await;
        let total = Arc::clone(&self.total).acquire_many_owned(charge).await;
        // Neither semaphore is ever closed.
        let (Ok(own), Ok(total)) = (own, total) else {
            return;
        };
        self.put(
            source,
            Taken {
                item,
                _room: [own, total],
            },
        );
    }

    /// Queues an item of `bytes` bytes if there is room for it now.
    ///
    /// # Errors
    /// [`Full`] when the share of its source or the queue is used up; nothing was queued.
    pub fn try_push(&self, source: &K, bytes: usize, item: T) -> Result<(), Full> {
        let charge = self.charge(bytes);
        let own = self.room_of(source).try_acquire_many_owned(charge);
        let total = Arc::clone(&self.total).try_acquire_many_owned(charge);
        match (own, total) {
            (Ok(own), Ok(total)) => {
                let room = [own, total];
                self.put(source, Taken { item, _room: room });
                Ok(())
            }
            _ => Err(Full),
        }
    }

    fn charge(&self, bytes: usize) -> u32 {
        let charge = bytes.clamp(self.room.least, self.room.share);
        u32::try_from(charge).unwrap_or(u32::MAX)
    }

    fn put(&self, source: &K, taken: Taken<T>) {
        let mut lanes = self.lock();
        let Lanes { by_source, turns } = &mut *lanes;
        let lane = by_source
            .entry(source.clone())
            .or_insert_with(|| Lane::new(self.room));
        if lane.items.is_empty() {
            turns.push_back(source.clone());
        }
        lane.items.push_back(taken);
        drop(lanes);
        self.filled.notify_one();
    }

    /// Waits for an item and takes it. One task alone may take items.
    ///
    /// # Cancel safety
    /// No item is lost when the future is dropped.
    pub async fn next(&self) -> Taken<T> {
        loop {
            if let Some(taken) = self.try_next() {
                return taken;
            }
            self.filled.notified().await;
        }
    }

    fn try_next(&self) -> Option<Taken<T>> {
        let mut lanes = self.lock();
        let Lanes { by_source, turns } = &mut *lanes;
        let Some(source) = turns.pop_front() else {
            // Nobody waits for room in a lane to which nothing else refers.
            by_source.retain(|_, lane| Arc::strong_count(&lane.room) > 1);
            if by_source.is_empty() {
                by_source.shrink_to_fit();
            }
            return None;
        };
        let lane = by_source.get_mut(&source)?;
        let taken = lane.items.pop_front();
        if !lane.items.is_empty() {
            turns.push_back(source);
        }
        taken
    }

    fn room_of(&self, source: &K) -> Arc<Semaphore> {
        let mut lanes = self.lock();
        let lane = lanes.by_source.entry(source.clone());
        Arc::clone(&lane.or_insert_with(|| Lane::new(self.room)).room)
    }

    fn lock(&self) -> MutexGuard<'_, Lanes<K, T>> {
        // Every change under this lock is complete in one step, so a poisoned lock is still valid.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Lane<T> {
    fn new(room: Room) -> Self {
        Self {
            items: VecDeque::new(),
            room: Arc::new(Semaphore::new(room.share)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use proptest::prelude::*;

    use super::*;

    const ROOM: Room = Room {
        least: 10,
        share: 40,
        total: 100,
    };

    fn is_ready(future: Pin<&mut impl Future<Output = ()>>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn a_source_waits_for_its_own_share_and_others_do_not() {
        let queue = FairQueue::new(ROOM);
        for item in 0..4 {
            assert!(is_ready(pin!(queue.push(&'a', 1, item))));
        }
        let mut fifth = Box::pin(queue.push(&'a', 1, 4));
        assert!(!is_ready(fifth.as_mut()), "its share is used up");
        assert!(is_ready(pin!(queue.push(&'b', 1, 10))));
        let taken = queue.try_next().unwrap();
        assert_eq!(taken.item, 0);
        assert!(!is_ready(fifth.as_mut()), "the item still takes its room");
        drop(taken);
        assert!(is_ready(fifth.as_mut()));
        assert_eq!(queue.try_next().unwrap().item, 10);
    }

    #[test]
    fn what_is_not_waited_for_is_refused_when_there_is_no_room() {
        let queue = FairQueue::new(ROOM);
        for item in 0..4 {
            assert_eq!(queue.try_push(&'a', 1, item), Ok(()));
        }
        assert_eq!(queue.try_push(&'a', 1, 4), Err(Full));
        assert_eq!(queue.try_push(&'b', 1, 10), Ok(()), "a share of its own");
        assert_eq!(queue.try_push(&'c', 60, 20), Ok(()));
        assert_eq!(
            queue.try_push(&'d', 40, 30),
            Err(Full),
            "all together are bounded"
        );
        let items = std::iter::from_fn(|| queue.try_next().map(|taken| taken.item));
        assert_eq!(items.collect::<Vec<_>>(), [0, 10, 20, 1, 2, 3]);
    }

    #[test]
    fn all_sources_together_are_bounded_and_large_items_fit_alone() {
        let queue = FairQueue::new(ROOM);
        for source in ['a', 'b'] {
            assert!(is_ready(pin!(queue.push(&source, 1_000, ()))));
        }
        let mut third = Box::pin(queue.push(&'c', 1_000, ()));
        assert!(!is_ready(third.as_mut()));
        drop(queue.try_next());
        assert!(is_ready(third.as_mut()));
    }

    #[test]
    fn a_dropped_push_gives_its_room_back_and_memory_comes_back() {
        let queue = FairQueue::new(ROOM);
        assert!(is_ready(pin!(queue.push(&'a', 40, 1))));
        let mut dropped = Box::pin(queue.push(&'a', 40, 2));
        assert!(!is_ready(dropped.as_mut()));
        drop(dropped);
        drop(queue.try_next());
        assert!(queue.try_next().is_none());
        assert_eq!(queue.lock().by_source.len(), 0);
        assert_eq!(queue.total.available_permits(), ROOM.total);
    }

    proptest! {
        /// Each item is one of a source; none is a take.
        #[test]
        fn turns_are_as_in_the_model(steps in prop::collection::vec(prop::option::of(0..4_u8), 0..200)) {
            let room = Room { least: 1, share: 1_000, total: 10_000 };
            let queue = FairQueue::new(room);
            // Every source with its items, the one whose turn is next first.
            let mut model: Vec<(u8, VecDeque<usize>)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                let Some(source) = step else {
                    let taken = queue.try_next().map(|taken| taken.item);
                    let expected = (!model.is_empty()).then(|| {
                        let (source, mut items) = model.remove(0);
                        let item = items.pop_front();
                        if !items.is_empty() {
                            model.push((source, items));
                        }
                        item
                    });
                    prop_assert_eq!(taken, expected.flatten());
                    continue;
                };
                prop_assert!(is_ready(pin!(queue.push(&source, 1, number))));
                match model.iter_mut().find(|(other, _)| *other == source) {
                    Some((_, items)) => items.push_back(number),
                    None => model.push((source, [number].into())),
                }
            }
        }
    }
}
