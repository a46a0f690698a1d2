//! Making requests: what the callers and the connection tasks of one client share.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use saline_protocol::transport::{Clock, Error, Instant, Result};
use tokio::sync::Notify;

use crate::lock;
use crate::pipe::WritePipe;
use crate::state::{PendingRequests, QueuedRequest, StagedRequests, Unsent, WriterWake};
use crate::wire::BOUNDARY;
use crate::wire::frame::REQUEST_HEADER;

/// The requests of one client over connections of the engine.
pub(crate) type Requests = ClientRequests<StagedRequests>;

/// The requests of one client, shared by its callers and the task that sends them: drives
/// [`PendingRequests`] with Tokio. `U` is what the task has taken and not sent yet; `()` for a
/// messaging system where what was taken is sent, or put back in the same turn.
///
/// One task has to poll [`watch_deadlines`](Self::watch_deadlines). Another one [takes](Self::take)
/// requests, [settles](Self::settle) them, and says when the connection was
/// [lost](Self::disconnected).
#[derive(Debug, Default)]
pub struct ClientRequests<U> {
    // Where both are held, `staged` is locked before `state`.
    state: Mutex<RequestsState>,
    staged: Mutex<U>,
    /// Tells the writer that there is something to send.
    pub(crate) wake: Notify,
    /// Tells the task of [`watch_deadlines`](Self::watch_deadlines) of an earlier deadline.
    earlier: Notify,
}

#[derive(Debug, Default)]
struct RequestsState {
    pending: PendingRequests<Waker>,
    wake: WriterWake,
    /// Bytes of requests that were queued, as a measure of whether more are coming.
    queued: usize,
}

/// The buffer that a writer keeps, so that its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Taken(Vec<(u64, Bytes)>);

fn wake(settled: Vec<Waker>) {
    for caller in settled {
        caller.wake();
    }
}

impl<U: Unsent> ClientRequests<U> {
    fn state(&self) -> MutexGuard<'_, RequestsState> {
        lock(&self.state)
    }

    /// Returns what the writer has put together.
    pub(crate) fn staged(&self) -> MutexGuard<'_, U> {
        lock(&self.staged)
    }

    /// Makes a request and waits for its outcome. It is queued when the future is first polled.
    ///
    /// # Errors
    /// Those of [`Client::request`](saline_protocol::transport::Client::request).
    ///
    /// # Cancel safety
    /// Dropping the future forgets the request.
    pub fn ask(&self, payload: Bytes, deadline: Instant) -> impl Future<Output = Result<Bytes>> {
        Caller {
            requests: self,
            stage: Stage::Unasked(payload, deadline),
        }
    }

    /// Queues a request, and returns its number.
    fn submit(&self, payload: Bytes, deadline: Instant, caller: &Waker) -> Result<u64> {
        let mut state = self.state();
        state.queued = state.queued.wrapping_add(REQUEST_HEADER + payload.len());
        let caller = caller.clone();
        let QueuedRequest { id, is_earliest } = state.pending.submit(payload, deadline, caller)?;
        let wakes = state.wake.queued(1);
        drop(state);
        if is_earliest {
            self.earlier.notify_one();
        }
        if wakes {
            self.wake.notify_one();
        }
        Ok(id)
    }

    /// Fetches the outcome of a request; `None` while it has none.
    fn fetch(&self, id: u64, caller: &Waker) -> Option<Result<Bytes>> {
        self.state().pending.fetch(id, |waker| match waker {
            Some(waker) => waker.clone_from(caller),
            none => *none = Some(caller.clone()),
        })
    }

    /// Takes up to `most` requests to be sent, in order; those whose deadlines have passed at `now` end. They
    /// count as sent until they are [put back](Self::put_back). When there was none, the next one
    /// [wakes](Self::woken) the task.
    pub fn take(&self, most: usize, now: Instant, into: &mut VecDeque<(u64, Bytes)>) {
        let mut expired = Vec::new();
        {
            let mut state = self.state();
            while into.len() < most
                && let Some(request) = state.pending.take(usize::MAX, now, &mut expired)
            {
                into.push_back(request);
            }
            state.wake = match into.is_empty() {
                true => WriterWake::Waiting,
                false => WriterWake::Busy,
            };
        }
        wake(expired);
    }

    /// Puts requests that could not be sent back to the head of the queue, in order.
    pub fn put_back(&self, from: &mut VecDeque<(u64, Bytes)>) {
        let mut state = self.state();
        while let Some((id, payload)) = from.pop_back() {
            state.pending.put_back(id, payload);
        }
    }

    /// Resolves when there is a request to take, after [`take`](Self::take) found none.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Gives outcomes to the callers that still wait: a reply, or that there is none.
    pub fn settle(&self, outcomes: &mut Vec<(u64, Option<Bytes>)>) {
        if outcomes.is_empty() {
            return;
        }
        let mut settled = Vec::with_capacity(outcomes.len());
        {
            let mut state = self.state();
            for (id, reply) in outcomes.drain(..) {
                state.pending.settle(id, reply, &mut settled);
            }
        }
        wake(settled);
    }

    /// Ends a request that was sent with `error`, if its caller still waits.
    pub fn fail(&self, id: u64, error: Error) {
        let mut settled = Vec::new();
        self.state().pending.fail(id, error, &mut settled);
        wake(settled);
    }

    /// Ends what was sent, because the connection broke: it may have run. What was not sent waits for
    /// the next connection.
    pub fn disconnected(&self) {
        let mut settled = Vec::new();
        {
            let mut staged = self.staged();
            let mut state = self.state();
            staged.take_back(&mut state.pending);
            state.pending.fail_sent(&mut settled);
        }
        wake(settled);
    }

    /// Ends every request. Those to come are refused.
    pub fn close(&self) {
        let mut settled = Vec::new();
        self.state().pending.close(&mut settled);
        wake(settled);
        self.earlier.notify_one();
    }

    /// Ends requests at their deadlines, for as long as it is polled. One timer serves all of them.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn watch_deadlines(&self, clock: Clock) {
        loop {
            let next = self.state().pending.next_deadline();
            match next {
                None => self.earlier.notified().await,
                Some(next) => tokio::select! {
                    () = clock.until(next) => self.expire(clock.now()),
                    () = self.earlier.notified() => {}
                },
            }
        }
    }

    fn expire(&self, now: Instant) {
        let mut settled = Vec::new();
        let taken = self.state().pending.expire(now, &mut settled);
        if !taken.is_empty() {
            let mut staged = self.staged();
            let mut state = self.state();
            if staged.holds_any(&taken) {
                staged.take_back(&mut state.pending);
            }
            state.pending.expire_taken(taken, &mut settled);
        }
        wake(settled);
    }

    /// Forgets a request whose caller has gone.
    fn abandon(&self, id: u64) {
        {
            let mut state = self.state();
            if !state.pending.is_taken(id) {
                return state.pending.abandon(id);
            }
        }
        let mut staged = self.staged();
        let mut state = self.state();
        if staged.holds_any(&[id]) {
            staged.take_back(&mut state.pending);
        }
        state.pending.abandon(id);
    }
}

impl Requests {
    /// Returns a number that grows with the bytes that were ever queued; `None` when those that are
    /// should not wait for more.
    pub(crate) fn gathered(&self) -> Option<usize> {
        let state = self.state();
        state.wake.is_gathering().then_some(state.queued)
    }

    /// Holds requests of more than `most` bytes back from now on, and lets the writer look at those
    /// that were.
    pub(crate) fn hold_above(&self, most: usize) {
        self.state().pending.hold_above(most);
        self.wake.notify_one();
    }

    /// Puts requests together, up to the boundary of a write; none of more than `largest` bytes, and none
    /// whose deadline has passed at `now`. Returns whether there is something to write; if not, the next request wakes the writer.
    pub(crate) fn stage(
        &self,
        staged: &mut StagedRequests,
        largest: usize,
        now: Instant,
        taken: &mut Taken,
    ) -> bool {
        let mut refused = Vec::new();
        {
            let mut state = self.state();
            let mut size = staged.buffer.len();
            while size < BOUNDARY
                && let Some((id, payload)) = state.pending.take(largest, now, &mut refused)
            {
                size += REQUEST_HEADER + payload.len();
                taken.0.push((id, payload));
            }
            state.wake = match taken.0.is_empty() && staged.buffer.is_empty() {
                true => WriterWake::Waiting,
                false => WriterWake::Busy,
            };
        }
        wake(refused);
        // Copied without the lock, which every caller needs.
        for (id, payload) in taken.0.drain(..) {
            staged.push(id, payload);
        }
        !staged.buffer.is_empty()
    }

    /// Writes what was put together, once. Resolves with whether that was all of it, and nothing is
    /// left on the way to the system.
    ///
    /// # Cancel safety
    /// What was not written stays.
    pub(crate) async fn write_once<W: WritePipe>(&self, pipe: &mut W) -> io::Result<bool> {
        poll_fn(|cx| {
            let mut staged = self.staged();
            let written = staged.buffer.poll_write(cx, pipe);
            staged.note_written();
            written
        })
        .await
    }

    /// Does what [`disconnected`](Self::disconnected) does, and forgets what was left to write.
    pub(crate) fn reset(&self) {
        self.disconnected();
        self.staged().buffer.rest();
    }
}

/// A request as its caller awaits it. Dropping it forgets the request.
///
/// It is no `async` function because every request pays for what its future moves about.
struct Caller<'a, U: Unsent> {
    requests: &'a ClientRequests<U>,
    stage: Stage,
}

/// How far a caller is.
enum Stage {
    Unasked(Bytes, Instant),
    /// It waits for the outcome of the request of this number.
    Asked(u64),
    Over,
}

impl<U: Unsent> Future for Caller<'_, U> {
    type Output = Result<Bytes>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Bytes>> {
        let requests = self.requests;
        if let Stage::Asked(id) = self.stage {
            let Some(outcome) = requests.fetch(id, cx.waker()) else {
                return Poll::Pending;
            };
            self.stage = Stage::Over;
            return Poll::Ready(outcome);
        }
        let unasked = mem::replace(&mut self.stage, Stage::Over);
        let Stage::Unasked(payload, deadline) = unasked else {
            return Poll::Ready(Err(Error::closed()));
        };
        let id = requests.submit(payload, deadline, cx.waker())?;
        self.stage = Stage::Asked(id);
        Poll::Pending
    }
}

impl<U: Unsent> Drop for Caller<'_, U> {
    fn drop(&mut self) {
        if let Stage::Asked(id) = self.stage {
            self.requests.abandon(id);
        }
    }
}

#[cfg(test)]
mod tests;
