//! The requests of one client: queued, sent, answered, given up; each gets exactly one outcome.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use bytes::Bytes;
use saline_protocol::transport::{Clock, Error, ErrorKind, Instant, Result, no_reply};
use tokio::sync::{Notify, oneshot};

use crate::lock;

/// What callers and the client's task share. It is bounded, because the layer around every transport
/// hands out [`requests_in_flight`](saline_protocol::transport::Limits::requests_in_flight) permits.
#[derive(Debug, Default)]
pub(crate) struct Line {
    state: Mutex<State>,
    /// Tells the writer that there is something to send.
    pub(crate) wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the last request. None is used again, so that a late reply finds nobody.
    last: u64,
    /// Who waits for an outcome.
    waiting: HashMap<u64, oneshot::Sender<Result<Bytes>>>,
    /// What was not sent yet, in the order of the calls.
    queue: BTreeMap<u64, Bytes>,
    closed: bool,
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
        let (place, outcome) = self.enter(payload)?;
        match clock.deadline(deadline, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Error::closed()),
            Err(_) if place.leave() => Err(Error::new(
                ErrorKind::Unreachable,
                "the request was not sent before its deadline",
            )),
            Err(_) => Err(Error::new(
                ErrorKind::TimedOut,
                "no reply before the deadline",
            )),
        }
    }

    fn enter(&self, payload: Bytes) -> Result<(Place<'_>, oneshot::Receiver<Result<Bytes>>)> {
        let (sender, outcome) = oneshot::channel();
        let mut state = lock(&self.state);
        if state.closed {
            return Err(Error::closed());
        }
        state.last += 1;
        let id = state.last;
        state.waiting.insert(id, sender);
        state.queue.insert(id, payload);
        drop(state);
        self.wake.notify_one();
        Ok((Place { line: self, id }, outcome))
    }

    /// Takes the next request to send. From now on it counts as sent.
    pub(crate) fn take(&self) -> Option<(u64, Bytes)> {
        lock(&self.state).queue.pop_first()
    }

    /// Gives an outcome to a request that was sent: a reply, or that there is none.
    pub(crate) fn settle(&self, id: u64, reply: Option<Bytes>) {
        let mut state = lock(&self.state);
        if state.queue.contains_key(&id) {
            return;
        }
        // One that was answered or given up is nobody's.
        if let Some(waiting) = state.waiting.remove(&id) {
            let _ = waiting.send(reply.ok_or_else(no_reply));
        }
    }

    /// The link broke: what was sent may have run, what was not waits for the next link.
    pub(crate) fn lose_link(&self) {
        let mut state = lock(&self.state);
        let State { waiting, queue, .. } = &mut *state;
        for (_, waiting) in waiting.extract_if(|id, _| !queue.contains_key(id)) {
            let _ = waiting.send(Err(Error::new(
                ErrorKind::ConnectionLost,
                "the link broke after the request was sent",
            )));
        }
    }

    /// Ends every request; those to come are refused.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.queue.clear();
        // Whose sender is dropped is told `Closed`.
        state.waiting.clear();
    }
}

/// A caller's place in the line. Dropping it forgets the request.
struct Place<'a> {
    line: &'a Line,
    id: u64,
}

impl Place<'_> {
    /// Forgets the request. Returns whether it was not sent, and now never will be.
    fn leave(&self) -> bool {
        let mut state = lock(&self.line.state);
        state.waiting.remove(&self.id);
        state.queue.remove(&self.id).is_some()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
