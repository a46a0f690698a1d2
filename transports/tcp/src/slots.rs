//! Where the requests of one client are: queued, sent, or waiting to be fetched by their callers.

use std::collections::VecDeque;
use std::task::Waker;

use bytes::Bytes;
use saline_protocol::transport::{Instant, Result};

/// Requests by their numbers. A place is used again, a number is not.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    count: u32,
    /// Those not yet taken, in order. Numbers of callers that have gone may be among them.
    queue: VecDeque<u64>,
    queued: usize,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) id: u64,
    pub(crate) phase: Phase,
    pub(crate) deadline: Instant,
    pub(crate) waker: Option<Waker>,
}

/// How far a request is.
#[derive(Debug)]
pub(crate) enum Phase {
    Free,
    Queued(Bytes),
    /// With the writer, or sent.
    Taken,
    Done(Result<Bytes>),
}

impl Slots {
    /// Queues a request and gives it a number.
    pub(crate) fn insert(&mut self, payload: Bytes, deadline: Instant, waker: Waker) -> u64 {
        self.count = self.count.wrapping_add(1);
        let place = self.free.pop().unwrap_or(self.slots.len() as u32);
        let id = u64::from(self.count) << 32 | u64::from(place);
        let slot = Slot {
            id,
            phase: Phase::Queued(payload),
            deadline,
            waker: Some(waker),
        };
        match self.slots.get_mut(place as usize) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        self.queue.push_back(id);
        self.queued += 1;
        id
    }

    /// The request of that number, if its caller still waits.
    pub(crate) fn get(&mut self, id: u64) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(place(id))?;
        (slot.id == id && !matches!(slot.phase, Phase::Free)).then_some(slot)
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Slot> {
        let in_use = |slot: &&Slot| !matches!(slot.phase, Phase::Free);
        self.slots.iter().filter(in_use)
    }

    /// Whether the request of that number was taken and has no outcome.
    pub(crate) fn is_taken(&mut self, id: u64) -> bool {
        matches!(self.get(id).map(|slot| &slot.phase), Some(Phase::Taken))
    }

    /// Takes the next request of the queue.
    pub(crate) fn take(&mut self) -> Option<(u64, Bytes)> {
        loop {
            let id = self.queue.pop_front()?;
            let Some(slot) = self.get(id) else {
                continue;
            };
            if let Phase::Queued(payload) = &mut slot.phase {
                let payload = std::mem::take(payload);
                slot.phase = Phase::Taken;
                self.queued -= 1;
                return Some((id, payload));
            }
        }
    }

    /// Puts one that was taken back to the head of the queue, if its caller still waits.
    pub(crate) fn put_back(&mut self, id: u64, payload: Bytes) {
        if let Some(slot) = self.get(id)
            && matches!(slot.phase, Phase::Taken)
        {
            slot.phase = Phase::Queued(payload);
            self.queue.push_front(id);
            self.queued += 1;
        }
    }

    /// Gives an outcome to a request that has none.
    pub(crate) fn settle(&mut self, id: u64, outcome: Result<Bytes>, wakers: &mut Vec<Waker>) {
        let Some(slot) = self.get(id) else {
            return;
        };
        let queued = match slot.phase {
            Phase::Free | Phase::Done(_) => return,
            Phase::Queued(_) => 1,
            Phase::Taken => 0,
        };
        slot.phase = Phase::Done(outcome);
        wakers.extend(slot.waker.take());
        self.queued -= queued;
    }

    /// Forgets a request. Returns how far it was.
    pub(crate) fn release(&mut self, id: u64) -> Phase {
        let Some(slot) = self.get(id) else {
            return Phase::Free;
        };
        let phase = std::mem::replace(&mut slot.phase, Phase::Free);
        slot.waker = None;
        self.free.push(id as u32);
        if matches!(phase, Phase::Queued(_)) {
            self.queued -= 1;
            // While the link is down nobody takes numbers out of the queue.
            if self.queue.len() > 2 * self.queued + 64 {
                let Self { queue, slots, .. } = self;
                queue.retain(|id| {
                    let slot = &slots[place(*id)];
                    slot.id == *id && matches!(slot.phase, Phase::Queued(_))
                });
            }
        }
        phase
    }
}

/// The lower half of a number is the place of its slot.
fn place(id: u64) -> usize {
    id as u32 as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_protocol::transport::Clock;

    fn insert(slots: &mut Slots, payload: &'static str) -> u64 {
        slots.insert(payload.into(), Clock.now(), Waker::noop().clone())
    }

    #[test]
    fn a_number_is_not_used_again_but_its_place_is() {
        let mut slots = Slots::default();
        let first = insert(&mut slots, "first");
        assert!(matches!(slots.release(first), Phase::Queued(_)));
        let second = insert(&mut slots, "second");
        assert_ne!(first, second);
        assert_eq!(slots.slots.len(), 1);
        assert!(slots.get(first).is_none());
        slots.settle(first, Ok("stale".into()), &mut Vec::new());
        assert_eq!(slots.take(), Some((second, "second".into())));
        assert_eq!(slots.take(), None);
    }

    #[test]
    fn what_is_put_back_comes_first_again() {
        let mut slots = Slots::default();
        let ids = ["a", "b", "c"].map(|payload| insert(&mut slots, payload));
        let taken = [slots.take().unwrap(), slots.take().unwrap()];
        slots.release(ids[1]);
        for (id, payload) in taken.into_iter().rev() {
            slots.put_back(id, payload);
        }
        assert_eq!(slots.take(), Some((ids[0], "a".into())));
        assert_eq!(slots.take(), Some((ids[2], "c".into())));
        assert_eq!((slots.take(), slots.queued), (None, 0));
    }

    #[test]
    fn callers_that_go_while_the_link_is_down_leave_nothing() {
        let mut slots = Slots::default();
        for _ in 0..10_000 {
            let id = insert(&mut slots, "gone");
            slots.release(id);
        }
        assert!(slots.queue.len() <= 64 && slots.slots.len() == 1);
    }
}
