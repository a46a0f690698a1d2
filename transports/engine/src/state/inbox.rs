//! Requests between the connections that read them and the handler that takes them.

use std::collections::VecDeque;

/// Bytes of requests that wait to be taken before no more are read.
const WAITING: usize = 16 * 1024 * 1024;

/// The requests of one server, and the permits that bound those which are not answered. `R` is a
/// request.
#[derive(Debug)]
pub(crate) struct Inbox<R> {
    waiting: VecDeque<R>,
    /// Bytes of those that wait.
    bytes: usize,
    /// Permits that nobody holds.
    free: usize,
    /// Connections that wait for a permit, in order.
    starving: VecDeque<u64>,
    /// The handler waits for a request.
    is_idle: bool,
    /// The server ends: nothing is handed out any more.
    has_ended: bool,
    /// The handler has gone: nothing is ever taken.
    is_abandoned: bool,
}

/// The result of pushing requests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PushResult {
    /// The requests wait; the handler does not have to be woken.
    Queued,
    /// The requests wait; the handler has to be woken.
    Wake,
    /// Nobody takes requests any more: they have to be dropped, which tells their clients.
    Refused,
}

impl<R> Inbox<R> {
    /// Returns an inbox with so many permits.
    pub(crate) fn new(permits: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            free: permits.max(1),
            starving: VecDeque::new(),
            is_idle: false,
            has_ended: false,
            is_abandoned: false,
        }
    }

    /// Takes the permits of up to `wanted` requests of `connection`. Returns how many; when it is none,
    /// the connection waits in line until it is named by [`release`](Self::release) or
    /// [`next_in_line`](Self::next_in_line), and then reserves again `in_turn`.
    pub(crate) fn reserve(&mut self, connection: u64, wanted: usize, in_turn: bool) -> usize {
        let may = in_turn || self.starving.is_empty();
        let granted = if may { wanted.min(self.free) } else { 0 };
        self.free -= granted;
        match granted {
            0 if in_turn => self.starving.push_front(connection),
            0 => self.starving.push_back(connection),
            _ => {}
        }
        granted
    }

    /// Takes a connection that has gone out of the line. Returns the next to be resumed, if a permit
    /// was about to be its own.
    pub(crate) fn leave(&mut self, connection: u64) -> Option<u64> {
        self.starving.retain(|other| *other != connection);
        self.next_in_line()
    }

    /// Gives back the permits of answered requests. Returns a connection that waits for one: it may
    /// [reserve](Self::reserve) now.
    pub(crate) fn release(&mut self, permits: usize) -> Option<u64> {
        self.free += permits;
        self.next_in_line()
    }

    /// Returns the connection that may reserve now, and takes it out of the line.
    pub(crate) fn next_in_line(&mut self) -> Option<u64> {
        match self.free {
            0 => None,
            _ => self.starving.pop_front(),
        }
    }

    /// Adds requests of `bytes` bytes together that have their permits.
    pub(crate) fn push(&mut self, requests: &mut Vec<R>, bytes: usize) -> PushResult {
        if self.has_ended || self.is_abandoned {
            return PushResult::Refused;
        }
        self.bytes += bytes;
        self.waiting.extend(requests.drain(..));
        match std::mem::take(&mut self.is_idle) {
            true => PushResult::Wake,
            false => PushResult::Queued,
        }
    }

    /// Returns whether so many bytes wait that no more may be read.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > WAITING
    }

    /// Moves everything that waits into `into`, which is empty. Returns whether the inbox was full, so
    /// that readers wait for room; `None` when nothing is handed out any more.
    pub(crate) fn take_all(&mut self, into: &mut VecDeque<R>) -> Option<bool> {
        if self.has_ended {
            return None;
        }
        std::mem::swap(into, &mut self.waiting);
        self.is_idle = into.is_empty();
        let was_full = self.is_full();
        self.bytes = 0;
        Some(was_full)
    }

    /// Hands out nothing any more. Returns what waited, to be dropped.
    pub(crate) fn end(&mut self) -> VecDeque<R> {
        self.has_ended = true;
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Takes note that the handler has gone. Returns what waited, to be dropped.
    pub(crate) fn abandon(&mut self) -> VecDeque<R> {
        self.is_abandoned = true;
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests;
