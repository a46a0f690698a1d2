//! The requests of one client that have no outcome yet.

use std::collections::{VecDeque, hash_map};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use saline_protocol::transport::{Error, ErrorKind, Result};
use tokio::sync::{Notify, oneshot};

use crate::frame::Frame;
use crate::numbered::Numbered;
use crate::packet::Packet;
use crate::socket::BATCH;

/// What callers and the task that owns the socket share.
#[derive(Debug, Default)]
pub(crate) struct Line {
    state: Mutex<LineState>,
    /// Tells the task that there is something to send, when there was nothing.
    pub(crate) wake: Notify,
}

#[derive(Debug, Default)]
struct LineState {
    /// Every request that has no outcome yet.
    pending: Numbered<u64, Pending>,
    /// Those not yet sent, in order. Numbers of callers that have gone may be among them.
    queue: VecDeque<u64>,
    /// The number of the next request.
    next: u64,
    closed: bool,
}

#[derive(Debug)]
struct Pending {
    /// The request until it is sent.
    packet: Option<Packet>,
    outcome: oneshot::Sender<Result<Bytes>>,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, LineState> {
        // The state is consistent after every statement, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request.
    pub(crate) fn ask(
        self: &Arc<Self>,
        payload: Bytes,
    ) -> Result<(Entry, oneshot::Receiver<Result<Bytes>>)> {
        let (outcome, receiver) = oneshot::channel();
        let mut state = self.lock();
        if state.closed {
            return Err(Error::closed());
        }
        let id = state.next;
        state.next += 1;
        let packet = Some(Packet::new(Frame::Request(id), payload));
        state.pending.insert(id, Pending { packet, outcome });
        let first = state.queue.is_empty();
        state.queue.push_back(id);
        drop(state);
        if first {
            self.wake.notify_one();
        }
        let line = Arc::clone(self);
        Ok((
            Entry {
                line,
                id,
                forgotten: false,
            },
            receiver,
        ))
    }

    /// Takes up to `most` requests to be sent. They count as sent until they are put back.
    pub(crate) fn take(&self, most: usize, into: &mut VecDeque<(u64, Packet)>) {
        let mut state = self.lock();
        while into.len() < most {
            let Some(id) = state.queue.pop_front() else {
                break;
            };
            if let Some(packet) = state.pending.get_mut(&id).and_then(|p| p.packet.take()) {
                into.push_back((id, packet));
            }
        }
    }

    /// Puts back what could not be sent, in order, so that callers that go are still forgotten.
    pub(crate) fn put_back(&self, from: &mut VecDeque<(u64, Packet)>) {
        let mut state = self.lock();
        while let Some((id, packet)) = from.pop_back() {
            if let Some(pending) = state.pending.get_mut(&id) {
                pending.packet = Some(packet);
                state.queue.push_front(id);
            }
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.lock().queue.is_empty()
    }

    /// Gives outcomes to those who still wait for them.
    pub(crate) fn settle(&self, outcomes: &mut Vec<(u64, Result<Bytes>)>) {
        let mut settled = Vec::with_capacity(outcomes.len());
        {
            let mut state = self.lock();
            for (id, outcome) in outcomes.drain(..) {
                // A reply to what was not sent, or was answered, or given up: nobody's.
                if let hash_map::Entry::Occupied(pending) = state.pending.entry(id)
                    && pending.get().packet.is_none()
                {
                    settled.push((pending.remove().outcome, outcome));
                }
            }
        }
        for (waiting, outcome) in settled {
            let _ = waiting.send(outcome);
        }
    }

    /// The link broke: what was sent may have run, what was not waits for the next link.
    pub(crate) fn lose_sent(&self) {
        let mut state = self.lock();
        let lost: Vec<u64> = state
            .pending
            .iter()
            .filter(|(_, pending)| pending.packet.is_none())
            .map(|(id, _)| *id)
            .collect();
        let lost: Vec<_> = lost
            .iter()
            .filter_map(|id| state.pending.remove(id))
            .collect();
        drop(state);
        for pending in lost {
            let _ = pending.outcome.send(Err(Error::new(
                ErrorKind::ConnectionLost,
                "the link broke after the request was sent",
            )));
        }
    }

    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.queue = VecDeque::new();
        let pending = std::mem::take(&mut state.pending);
        drop(state);
        for (_, pending) in pending {
            let _ = pending.outcome.send(Err(Error::closed()));
        }
    }
}

/// A caller's place in the line. Dropping it forgets the request.
pub(crate) struct Entry {
    line: Arc<Line>,
    id: u64,
    /// Whether the line has nothing of this request any more.
    forgotten: bool,
}

impl Entry {
    /// The request has its outcome: there is nothing left to forget.
    pub(crate) fn settled(mut self) {
        self.forgotten = true;
    }

    /// The error of a request whose deadline has passed.
    pub(crate) fn overdue(self) -> Error {
        let pending = self.line.lock().pending.remove(&self.id);
        match pending {
            Some(Pending {
                packet: Some(_), ..
            }) => Error::new(
                ErrorKind::Unreachable,
                "the server could not be reached before the deadline",
            ),
            _ => Error::new(ErrorKind::TimedOut, "no reply before the deadline"),
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.forgotten {
            return;
        }
        let mut state = self.line.lock();
        let gone = state.pending.remove(&self.id);
        // While the link is down nobody takes numbers out of the queue.
        if gone.is_some() && state.queue.len() > 2 * state.pending.len() + BATCH {
            let LineState { queue, pending, .. } = &mut *state;
            queue.retain(|id| pending.contains_key(id));
        }
    }
}
