//! The requests of one client by their numbers: queued, taken to be sent, or settled.

use std::collections::VecDeque;

use bytes::Bytes;
use saline_protocol::transport::{Instant, Result};

/// Requests by their numbers, with whatever wakes their callers. A place is used again, a number is
/// not.
#[derive(Debug)]
pub(crate) struct RequestTable<W> {
    entries: Vec<Entry<W>>,
    free: Vec<u32>,
    count: u32,
    /// The requests not yet taken, in the order of their numbers. Those of callers that have gone may be among
    /// them.
    queue: VecDeque<u64>,
    /// The same of those that were taken and held back.
    held: VecDeque<u64>,
    /// Requests in both.
    queued: usize,
}

#[derive(Debug)]
pub(crate) struct Entry<W> {
    pub(crate) id: u64,
    pub(crate) phase: Phase,
    pub(crate) deadline: Instant,
    pub(crate) caller: Option<W>,
}

/// How far a request is.
#[derive(Debug)]
pub(crate) enum Phase {
    Free,
    Queued(Bytes),
    /// Taken to be sent, or sent.
    Taken,
    Done(Result<Bytes>),
}

impl<W> Default for RequestTable<W> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            count: 0,
            queue: VecDeque::new(),
            held: VecDeque::new(),
            queued: 0,
        }
    }
}

impl<W> RequestTable<W> {
    /// Queues a request and gives it a number.
    pub(crate) fn insert(&mut self, payload: Bytes, deadline: Instant, caller: W) -> u64 {
        self.count = self.count.wrapping_add(1);
        let place = self.free.pop().unwrap_or(self.entries.len() as u32);
        let id = u64::from(self.count) << 32 | u64::from(place);
        let entry = Entry {
            id,
            phase: Phase::Queued(payload),
            deadline,
            caller: Some(caller),
        };
        match self.entries.get_mut(place as usize) {
            Some(free) => *free = entry,
            None => self.entries.push(entry),
        }
        self.queue.push_back(id);
        self.queued += 1;
        id
    }

    /// Returns the request of that number, if its caller still waits.
    pub(crate) fn get(&mut self, id: u64) -> Option<&mut Entry<W>> {
        let entry = self.entries.get_mut(place(id))?;
        (entry.id == id && !matches!(entry.phase, Phase::Free)).then_some(entry)
    }

    /// Returns every request whose caller has not fetched its outcome.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Entry<W>> {
        let in_use = |entry: &&Entry<W>| !matches!(entry.phase, Phase::Free);
        self.entries.iter().filter(in_use)
    }

    /// Returns whether the request of that number was taken and has no outcome.
    pub(crate) fn is_taken(&mut self, id: u64) -> bool {
        matches!(self.get(id).map(|entry| &entry.phase), Some(Phase::Taken))
    }

    /// Takes the next request of the queue; those whose payloads `is_held` says so of are held back.
    pub(crate) fn take(
        &mut self,
        is_held: impl Fn(usize) -> bool,
    ) -> Option<(u64, Instant, Bytes)> {
        loop {
            let id = self.queue.pop_front()?;
            let Some(entry) = self.get(id) else {
                continue;
            };
            if let Phase::Queued(payload) = &mut entry.phase {
                if is_held(payload.len()) {
                    self.held.push_back(id);
                    continue;
                }
                let payload = std::mem::take(payload);
                let deadline = entry.deadline;
                entry.phase = Phase::Taken;
                self.queued -= 1;
                return Some((id, deadline, payload));
            }
        }
    }

    /// Puts one that was taken back into its place in the queue, if its caller still waits.
    pub(crate) fn put_back(&mut self, id: u64, payload: Bytes) {
        if let Some(entry) = self.get(id)
            && matches!(entry.phase, Phase::Taken)
        {
            entry.phase = Phase::Queued(payload);
            // At the head, but for those that were held back and have come before it.
            let place = self.queue.partition_point(|other| *other < id);
            self.queue.insert(place, id);
            self.queued += 1;
        }
    }

    /// Puts those that were held back into their places in the queue.
    pub(crate) fn release_held(&mut self) {
        if !self.held.is_empty() {
            self.queue.append(&mut self.held);
            // By their numbers, which is the order in which they came.
            self.queue.make_contiguous().sort_unstable();
        }
    }

    /// Gives an outcome to a request that has none.
    pub(crate) fn settle(&mut self, id: u64, outcome: Result<Bytes>, settled: &mut Vec<W>) {
        let Some(entry) = self.get(id) else {
            return;
        };
        let queued = match entry.phase {
            Phase::Free | Phase::Done(_) => return,
            Phase::Queued(_) => 1,
            Phase::Taken => 0,
        };
        entry.phase = Phase::Done(outcome);
        settled.extend(entry.caller.take());
        self.queued -= queued;
    }

    /// Gives an outcome to a request that was taken and has none.
    pub(crate) fn settle_taken(
        &mut self,
        id: u64,
        outcome: impl FnOnce() -> Result<Bytes>,
        settled: &mut Vec<W>,
    ) {
        if let Some(entry) = self.get(id)
            && matches!(entry.phase, Phase::Taken)
        {
            entry.phase = Phase::Done(outcome());
            settled.extend(entry.caller.take());
        }
    }

    /// Returns how many places are in use.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Forgets a request. Returns the phase that it was in.
    pub(crate) fn release(&mut self, id: u64) -> Phase {
        let Some(entry) = self.get(id) else {
            return Phase::Free;
        };
        let phase = std::mem::replace(&mut entry.phase, Phase::Free);
        entry.caller = None;
        self.free.push(id as u32);
        if matches!(phase, Phase::Queued(_)) {
            self.queued -= 1;
        }
        // While the client is not connected nobody takes numbers out of the queue, neither those of
        // callers that have gone nor of requests that have expired.
        if self.queue.len() + self.held.len() > 2 * self.queued + 64 {
            let Self {
                queue,
                held,
                entries,
                ..
            } = self;
            let waits = |id: &u64| {
                let entry = &entries[place(*id)];
                entry.id == *id && matches!(entry.phase, Phase::Queued(_))
            };
            queue.retain(waits);
            held.retain(waits);
        }
        phase
    }
}

/// Returns the place of a request, which is the lower half of its number.
fn place(id: u64) -> usize {
    id as u32 as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_protocol::transport::Clock;

    fn insert(table: &mut RequestTable<()>, payload: &'static str) -> u64 {
        table.insert(payload.into(), Clock.now(), ())
    }

    fn take(table: &mut RequestTable<()>) -> Option<(u64, Bytes)> {
        take_small(table, usize::MAX)
    }

    /// Takes the next request of at most so many bytes.
    fn take_small(table: &mut RequestTable<()>, most: usize) -> Option<(u64, Bytes)> {
        let (id, _, payload) = table.take(|size| size > most)?;
        Some((id, payload))
    }

    #[test]
    fn a_number_is_not_used_again_but_its_place_is() {
        let mut table = RequestTable::default();
        let first = insert(&mut table, "first");
        assert!(matches!(table.release(first), Phase::Queued(_)));
        let second = insert(&mut table, "second");
        assert_ne!(first, second);
        assert_eq!(table.entries.len(), 1);
        assert!(table.get(first).is_none());
        table.settle(first, Ok("stale".into()), &mut Vec::new());
        assert_eq!(take(&mut table), Some((second, "second".into())));
        assert_eq!(take(&mut table), None);
    }

    #[test]
    fn no_number_comes_again_between_a_time_out_and_a_reply_that_is_late() {
        // More than sixteen bits have.
        const REQUESTS: usize = 70_000;
        let mut table = RequestTable::default();
        let mut numbers = std::collections::HashSet::new();
        for _ in 0..REQUESTS {
            let id = insert(&mut table, "");
            table.release(id);
            assert!(numbers.insert(id), "{id:x} comes again");
        }
        assert_eq!(table.entries.len(), 1);
    }

    #[test]
    fn a_request_that_is_put_back_comes_first_again() {
        let mut table = RequestTable::default();
        let ids = ["a", "b", "c"].map(|payload| insert(&mut table, payload));
        let taken = [take(&mut table).unwrap(), take(&mut table).unwrap()];
        table.release(ids[1]);
        for (id, payload) in taken.into_iter().rev() {
            table.put_back(id, payload);
        }
        assert_eq!(take(&mut table), Some((ids[0], "a".into())));
        assert_eq!(take(&mut table), Some((ids[2], "c".into())));
        assert_eq!((take(&mut table), table.queued), (None, 0));
    }

    #[test]
    fn callers_that_go_while_their_requests_are_held_back_leave_nothing() {
        let mut table = RequestTable::<()>::default();
        for _ in 0..10_000 {
            let id = insert(&mut table, "held");
            assert_eq!(take_small(&mut table, 1), None);
            table.release(id);
        }
        assert!(table.held.len() <= 64 && table.queue.is_empty() && table.entries.len() == 1);
        let ids = ["b", "long", "c"].map(|payload| insert(&mut table, payload));
        assert_eq!(take_small(&mut table, 1), Some((ids[0], "b".into())));
        assert_eq!(take_small(&mut table, 1), Some((ids[2], "c".into())));
        table.put_back(ids[2], "c".into());
        table.release_held();
        assert_eq!(take(&mut table), Some((ids[1], "long".into())));
        assert_eq!(take(&mut table), Some((ids[2], "c".into())));
        assert_eq!((take(&mut table), table.queued), (None, 0));
    }

    #[test]
    fn callers_that_go_while_nothing_is_sent_leave_nothing() {
        let mut table = RequestTable::<()>::default();
        for _ in 0..10_000 {
            let id = insert(&mut table, "gone");
            table.release(id);
        }
        assert!(table.queue.len() <= 64 && table.entries.len() == 1);
    }

    #[test]
    fn a_request_that_is_put_back_comes_behind_those_that_were_held_back_before_it() {
        let mut table = RequestTable::<()>::default();
        let ids = ["long", "b", "c"].map(|payload| insert(&mut table, payload));
        assert_eq!(take_small(&mut table, 1), Some((ids[1], "b".into())));
        table.release_held();
        table.put_back(ids[1], "b".into());
        let order = std::iter::from_fn(|| take(&mut table));
        assert!(order.map(|(id, _)| id).eq(ids));
    }

    /// Otherwise a thousand callers that go together would each look at all the others.
    #[test]
    fn numbers_are_swept_when_they_are_many_and_those_that_wait_stay() {
        let mut table = RequestTable::<()>::default();
        let first = insert(&mut table, "first");
        let gone = |table: &mut RequestTable<()>| {
            let id = insert(table, "gone");
            table.release(id);
        };
        (0..65).for_each(|_| gone(&mut table));
        assert_eq!(table.queue.len(), 66, "twice what waits, and 64 more");
        gone(&mut table);
        assert_eq!(table.queue, [first]);
        let ids: Vec<u64> = (0..1100).map(|_| insert(&mut table, "waits")).collect();
        for id in &ids[..100] {
            table.release(*id);
        }
        assert_eq!(table.queue.len(), 1101);
    }

    #[test]
    fn callers_that_go_together_leave_no_numbers() {
        let mut table = RequestTable::<()>::default();
        let ids: Vec<u64> = (0..1000).map(|_| insert(&mut table, "gone")).collect();
        for id in ids {
            table.release(id);
            assert!(table.queue.len() <= 2 * table.queued + 64);
        }
        assert_eq!(table.in_use(), 0);
    }

    #[test]
    fn requests_that_expire_while_nothing_is_sent_leave_nothing() {
        let mut table = RequestTable::<()>::default();
        for _ in 0..10_000 {
            let id = insert(&mut table, "late");
            table.settle(id, Ok(Bytes::new()), &mut Vec::new());
            assert!(matches!(table.release(id), Phase::Done(_)));
        }
        assert!(table.queue.len() <= 64 && table.entries.len() == 1);
    }
}
