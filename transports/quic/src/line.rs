//! The requests of one client: queued, sent, answered, given up; each gets exactly one outcome.
//!
//! A request costs no allocation and no timer of its own: it has a slot that is used again, and one
//! task looks after all deadlines.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};

use bytes::Bytes;
use saline_protocol::transport::{Clock, Error, ErrorKind, Instant, Result};
use tokio::sync::Notify;

use crate::batch::Batch;
use crate::frame::{HEADER, Kind};
use crate::{BATCH, lock};

/// What callers and the link share.
#[derive(Debug, Default)]
pub(crate) struct Line {
    state: Mutex<State>,
    /// There is something to write.
    pub(crate) wake: Notify,
    /// A request has an earlier deadline than the one that is waited for.
    earlier: Notify,
}

#[derive(Debug, Default)]
struct State {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// How often a slot was taken: the upper half of the next number.
    taken: u32,
    /// Those not yet sent, in order. Numbers of callers that have gone may be among them.
    queue: VecDeque<u64>,
    queued: usize,
    /// The bytes of those that are queued.
    waiting: usize,
    /// When deadlines are looked at next; none is earlier.
    armed: Option<Instant>,
    closed: bool,
}

/// Where a request is. A slot is used again, a number is not.
#[derive(Debug)]
struct Slot {
    id: u64,
    phase: Phase,
    deadline: Instant,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum Phase {
    Free,
    Queued(Bytes),
    Sent,
    Done(Result<Bytes>),
}

impl Slot {
    /// Gives it an outcome.
    fn finish(&mut self, outcome: Result<Bytes>, wakers: &mut Vec<Waker>) {
        self.phase = Phase::Done(outcome);
        wakers.extend(self.waker.take());
    }
}

/// The place is the lower half of a number.
fn place(id: u64) -> usize {
    id as u32 as usize
}

impl State {
    fn insert(&mut self, payload: Bytes, deadline: Instant, waker: Waker) -> u64 {
        let place = self.free.pop().unwrap_or(self.slots.len() as u32);
        // Zero is the number of a free slot.
        self.taken = self.taken.wrapping_add(1).max(1);
        let id = u64::from(self.taken) << 32 | u64::from(place);
        self.queue.push_back(id);
        self.queued += 1;
        self.waiting += HEADER + payload.len();
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
        id
    }

    fn slot(&mut self, id: u64) -> Option<&mut Slot> {
        self.slots.get_mut(place(id)).filter(|slot| slot.id == id)
    }

    /// Takes a request out of the queue's books.
    fn unqueue(&mut self, size: usize) {
        self.queued -= 1;
        self.waiting -= HEADER + size;
    }

    /// Takes a request's slot away from it, with what there is in it.
    fn release(&mut self, id: u64) -> Phase {
        let Some(slot) = self.slot(id) else {
            return Phase::Free;
        };
        slot.waker = None;
        // No reply that comes late finds it.
        slot.id = 0;
        let phase = std::mem::replace(&mut slot.phase, Phase::Free);
        self.free.push(place(id) as u32);
        if let Phase::Queued(payload) = &phase {
            self.unqueue(payload.len());
            // While the link is down nobody takes numbers out of the queue.
            if self.queue.len() > 2 * self.queued + 64 {
                let Self { queue, slots, .. } = self;
                queue.retain(|id| slots[place(*id)].id == *id);
            }
        }
        phase
    }
}

fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        waker.wake();
    }
}

impl Line {
    /// Asks, and waits for the outcome.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the request.
    pub(crate) async fn ask(
        &self,
        payload: Bytes,
        deadline: Instant,
        clock: Clock,
    ) -> Result<Bytes> {
        let mut place = Place {
            line: self,
            id: None,
        };
        let mut payload = Some(payload);
        poll_fn(|cx| {
            let mut state = lock(&self.state);
            let Some(id) = place.id else {
                if state.closed {
                    return Poll::Ready(Err(Error::closed()));
                }
                let earlier = state.armed.is_none_or(|armed| deadline < armed);
                // What is not earlier ends with those that are armed, so that the clock is rarely asked.
                if earlier && deadline <= clock.now() {
                    return Poll::Ready(Err(unreachable()));
                }
                let payload = payload.take().unwrap_or_default();
                let first = state.queued == 0;
                place.id = Some(state.insert(payload, deadline, cx.waker().clone()));
                if earlier {
                    state.armed = Some(deadline);
                }
                drop(state);
                if earlier {
                    self.earlier.notify_one();
                }
                if first {
                    self.wake.notify_one();
                }
                return Poll::Pending;
            };
            if let Some(slot) = state.slot(id)
                && matches!(slot.phase, Phase::Queued(_) | Phase::Sent)
            {
                slot.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            place.id = None;
            match state.release(id) {
                Phase::Done(outcome) => Poll::Ready(outcome),
                _ => Poll::Ready(Err(Error::closed())),
            }
        })
        .await
    }

    /// Writes a batch of what waits, which counts as sent from here on. `taken` is kept for its memory.
    pub(crate) fn write(&self, batch: &mut Batch, taken: &mut Vec<(u64, Bytes)>) {
        let mut state = lock(&self.state);
        let mut size = 0;
        while size < BATCH
            && let Some(id) = state.queue.pop_front()
        {
            let Some(slot) = state.slot(id) else {
                continue;
            };
            if let Phase::Queued(payload) = &mut slot.phase {
                let payload = std::mem::take(payload);
                slot.phase = Phase::Sent;
                size += HEADER + payload.len();
                state.unqueue(payload.len());
                taken.push((id, payload));
            }
        }
        drop(state);
        // Copied without the lock, which every caller needs.
        batch.reserve(size);
        for (id, payload) in taken.drain(..) {
            batch.frame(Kind::Request, id, &payload);
        }
    }

    /// How many bytes wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.state).waiting
    }

    /// Gives outcomes to those who still wait for them.
    pub(crate) fn settle(&self, outcomes: &mut Vec<(u64, Result<Bytes>)>) {
        if outcomes.is_empty() {
            return;
        }
        let mut wakers = Vec::with_capacity(outcomes.len());
        let mut state = lock(&self.state);
        for (id, outcome) in outcomes.drain(..) {
            // A reply to what was not sent, or was answered, or given up: nobody's.
            if let Some(slot) = state.slot(id)
                && matches!(slot.phase, Phase::Sent)
            {
                slot.finish(outcome, &mut wakers);
            }
        }
        drop(state);
        wake_all(wakers);
    }

    /// The link broke: what was sent may have run, what was not waits for the next link.
    pub(crate) fn lose_sent(&self) {
        let mut wakers = Vec::new();
        for slot in &mut lock(&self.state).slots {
            if matches!(slot.phase, Phase::Sent) {
                let lost = Error::new(
                    ErrorKind::ConnectionLost,
                    "the link broke after the request was sent",
                );
                slot.finish(Err(lost), &mut wakers);
            }
        }
        wake_all(wakers);
    }

    /// Ends every request at its deadline, for ever.
    pub(crate) async fn watch_deadlines(&self, clock: Clock) -> Infallible {
        loop {
            match self.end_overdue(clock.now()) {
                Some(next) => tokio::select! {
                    () = clock.until(next) => {}
                    () = self.earlier.notified() => {}
                },
                None => self.earlier.notified().await,
            }
        }
    }

    /// Ends what is due at `now`; returns when something is due next.
    fn end_overdue(&self, now: Instant) -> Option<Instant> {
        let mut wakers = Vec::new();
        let mut state = lock(&self.state);
        state.armed = None;
        for at in 0..state.slots.len() {
            let slot = &mut state.slots[at];
            let (error, unsent) = match &slot.phase {
                Phase::Queued(payload) => (unreachable as fn() -> Error, Some(payload.len())),
                Phase::Sent => (timed_out as fn() -> Error, None),
                _ => continue,
            };
            let deadline = slot.deadline;
            if deadline <= now {
                slot.finish(Err(error()), &mut wakers);
                if let Some(size) = unsent {
                    state.unqueue(size);
                }
            } else if state.armed.is_none_or(|armed| deadline < armed) {
                state.armed = Some(deadline);
            }
        }
        let next = state.armed;
        drop(state);
        wake_all(wakers);
        next
    }

    /// Ends every request, those to come included.
    pub(crate) fn close(&self) {
        let mut wakers = Vec::new();
        let mut state = lock(&self.state);
        state.closed = true;
        state.queue = VecDeque::new();
        (state.queued, state.waiting) = (0, 0);
        for slot in &mut state.slots {
            if matches!(slot.phase, Phase::Queued(_) | Phase::Sent) {
                slot.finish(Err(Error::closed()), &mut wakers);
            }
        }
        drop(state);
        wake_all(wakers);
    }
}

fn unreachable() -> Error {
    Error::new(
        ErrorKind::Unreachable,
        "the server could not be reached before the deadline",
    )
}

fn timed_out() -> Error {
    Error::new(ErrorKind::TimedOut, "no reply before the deadline")
}

/// A caller's place in the line. Dropping it forgets the request.
struct Place<'a> {
    line: &'a Line,
    id: Option<u64>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let _ = lock(&self.line.state).release(id);
        }
    }
}
