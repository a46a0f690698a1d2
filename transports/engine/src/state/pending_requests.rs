//! The requests of one client: queued, sent, answered, given up; each gets exactly one outcome.

use bytes::Bytes;
use saline_protocol::transport::{Error, ErrorKind, Instant, Result, no_reply};

use super::request_table::{Phase, RequestTable};

/// The requests of one client. `W` is whatever wakes a caller.
///
/// A request is *taken* when it is handed out to be sent, and *sent* as soon as a connection accepted
/// its first byte. Whoever sends keeps the payloads of those that were taken and not sent, and puts
/// them [back](Self::put_back) when their callers go, their deadlines pass or the connection is lost:
/// only what was sent may have run.
#[derive(Debug)]
pub struct PendingRequests<W> {
    table: RequestTable<W>,
    /// When deadlines are looked at next; no request has an earlier one.
    next_deadline: Option<Instant>,
    /// Payloads above so many bytes are held back.
    hold_above: usize,
    closed: bool,
}

/// A request that was [queued](PendingRequests::submit).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedRequest {
    /// The number by which its outcome is fetched.
    pub id: u64,
    /// Whether its deadline is the earliest now, so that whoever watches deadlines has to look again.
    pub is_earliest: bool,
}

impl<W> Default for PendingRequests<W> {
    fn default() -> Self {
        Self {
            table: RequestTable::default(),
            next_deadline: None,
            hold_above: usize::MAX,
            closed: false,
        }
    }
}

impl<W> PendingRequests<W> {
    /// Queues a request.
    ///
    /// # Errors
    /// `Closed` when the client is closed.
    pub fn submit(
        &mut self,
        payload: Bytes,
        deadline: Instant,
        caller: W,
    ) -> Result<QueuedRequest> {
        if self.closed {
            return Err(Error::closed());
        }
        let id = self.table.insert(payload, deadline, caller);
        let is_earliest = self.next_deadline.is_none_or(|next| deadline < next);
        if is_earliest {
            self.next_deadline = Some(deadline);
        }
        Ok(QueuedRequest { id, is_earliest })
    }

    /// Fetches the outcome of a request and forgets it; `None` while it has none. `caller` replaces
    /// what wakes the caller then.
    pub fn fetch(&mut self, id: u64, caller: impl FnOnce(&mut Option<W>)) -> Option<Result<Bytes>> {
        match self.table.get(id) {
            Some(entry) if matches!(entry.phase, Phase::Queued(_) | Phase::Taken) => {
                caller(&mut entry.caller);
                None
            }
            _ => Some(match self.table.release(id) {
                Phase::Done(outcome) => outcome,
                _ => Err(Error::closed()),
            }),
        }
    }

    /// Holds requests of more than `most` bytes back from now on, until another call allows more: those
    /// that are held back so far are queued in their order again.
    pub fn hold_above(&mut self, most: usize) {
        self.hold_above = most;
        self.table.release_held();
    }

    /// Takes the next request to be sent that is not [held back](Self::hold_above). One above `largest`
    /// bytes, which the server does not take, ends with `TooLarge` instead; one whose deadline has passed at
    /// `now` ends with `Unreachable`: [`expire`](Self::expire) could be called later than the reply comes.
    pub fn take(
        &mut self,
        largest: usize,
        now: Instant,
        settled: &mut Vec<W>,
    ) -> Option<(u64, Bytes)> {
        let is_held = |size: usize| size > self.hold_above && size <= largest;
        loop {
            let (id, deadline, payload) = self.table.take(is_held)?;
            let error = match payload.len() <= largest {
                true if deadline > now => return Some((id, payload)),
                true => unreachable(),
                false => Error::too_large("a request", payload.len(), largest),
            };
            self.table.settle(id, Err(error), settled);
        }
    }

    /// Puts a request that was taken and not sent back to the head of the queue. Several go back last
    /// first, so that they keep their order.
    pub fn put_back(&mut self, id: u64, payload: Bytes) {
        self.table.put_back(id, payload);
    }

    /// Gives a request that was taken its outcome: a reply, or that there is none. A reply to a request
    /// that was not sent, was answered or was given up is nobody's.
    pub fn settle(&mut self, id: u64, reply: Option<Bytes>, settled: &mut Vec<W>) {
        let outcome = || reply.ok_or_else(no_reply);
        self.table.settle_taken(id, outcome, settled);
    }

    /// Ends a request that was taken with `error`, as [`settle`](Self::settle) does with a reply.
    pub fn fail(&mut self, id: u64, error: Error, settled: &mut Vec<W>) {
        self.table.settle_taken(id, || Err(error), settled);
    }

    /// Ends every request that is taken still, because the connection is lost: what was not sent was
    /// put back before.
    pub fn fail_sent(&mut self, settled: &mut Vec<W>) {
        let taken = |phase: &Phase| matches!(phase, Phase::Taken);
        for id in self.ids(taken) {
            let why = "the connection broke after the request was sent";
            let lost = Error::new(ErrorKind::ConnectionLost, why);
            self.table.settle(id, Err(lost), settled);
        }
    }

    /// Returns when [`expire`](Self::expire) has to be called next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.next_deadline
    }

    /// Ends the queued requests whose deadlines have passed, and returns those that were taken: what
    /// of them was not sent has to be put back, then [`expire_taken`](Self::expire_taken) ends them.
    pub fn expire(&mut self, now: Instant, settled: &mut Vec<W>) -> Vec<u64> {
        let (mut queued, mut taken) = (Vec::new(), Vec::new());
        let mut next: Option<Instant> = None;
        for entry in self.table.all() {
            match entry.phase {
                Phase::Queued(_) if entry.deadline <= now => queued.push(entry.id),
                Phase::Taken if entry.deadline <= now => taken.push(entry.id),
                Phase::Queued(_) | Phase::Taken => {
                    let earliest = next.map_or(entry.deadline, |next| next.min(entry.deadline));
                    next = Some(earliest);
                }
                Phase::Free | Phase::Done(_) => {}
            }
        }
        self.next_deadline = next;
        for id in queued {
            self.table.settle(id, Err(unreachable()), settled);
        }
        taken
    }

    /// Ends requests whose deadlines have passed: with `TimedOut` if they were sent, with
    /// `Unreachable` if they were put back.
    pub fn expire_taken(&mut self, ids: Vec<u64>, settled: &mut Vec<W>) {
        for id in ids {
            let error = match self.table.get(id).map(|entry| &entry.phase) {
                Some(Phase::Queued(_)) => unreachable(),
                _ => Error::new(ErrorKind::TimedOut, "no reply before the deadline"),
            };
            self.table.settle(id, Err(error), settled);
        }
    }

    /// Returns whether the request was taken and has no outcome.
    pub fn is_taken(&mut self, id: u64) -> bool {
        self.table.is_taken(id)
    }

    /// Forgets a request whose caller has gone. What was not sent of it has to be put back before.
    pub fn abandon(&mut self, id: u64) {
        self.table.release(id);
    }

    /// Ends every request with `Closed`, and refuses those to come.
    pub fn close(&mut self, settled: &mut Vec<W>) {
        self.closed = true;
        for id in self.ids(|_| true) {
            self.table.settle(id, Err(Error::closed()), settled);
        }
    }

    fn ids(&self, wanted: impl Fn(&Phase) -> bool) -> Vec<u64> {
        let entries = self.table.all().filter(|entry| wanted(&entry.phase));
        entries.map(|entry| entry.id).collect()
    }
}

fn unreachable() -> Error {
    Error::new(
        ErrorKind::Unreachable,
        "the server could not be reached before the deadline",
    )
}

#[cfg(test)]
mod tests;
