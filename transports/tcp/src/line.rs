//! The requests of one client: queued, sent, answered, given up; each gets exactly one outcome.
//!
//! A request counts as sent when its first byte was handed to the socket. So what the writer has put
//! into its batch is remembered until then, and taken back when its caller goes or the link breaks.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Poll, Waker, ready};

use bytes::Bytes;
use saline_protocol::transport::{Clock, Error, ErrorKind, Instant, Result, no_reply};
use tokio::io::AsyncWrite;
use tokio::sync::Notify;

use crate::batch::{BOUNDARY, Batch};
use crate::frame::{Kind, REQUEST_HEADER};
use crate::lock;
use crate::slots::{Phase, Slot, Slots};

/// What callers and the client's tasks share. Where both are held, `sending` is locked before `state`.
#[derive(Debug, Default)]
pub(crate) struct Line {
    state: Mutex<State>,
    sending: Mutex<Sending>,
    /// Tells the writer that there is something to send.
    pub(crate) wake: Notify,
    /// Tells the task of [`watch_deadlines`](Self::watch_deadlines) of an earlier deadline.
    earlier: Notify,
}

#[derive(Debug, Default)]
struct State {
    slots: Slots,
    /// When deadlines are looked at next; no request has an earlier one.
    armed: Option<Instant>,
    /// The writer has nothing to do.
    idle: bool,
    closed: bool,
}

/// What the writer has put together.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    pub(crate) batch: Batch,
    /// The requests in it of which nothing was written.
    unsent: VecDeque<Unsent>,
    /// Kept for its memory.
    taken: Vec<(u64, Bytes)>,
}

#[derive(Debug)]
struct Unsent {
    id: u64,
    /// Where it begins in the batch.
    start: u64,
    payload: Bytes,
}

impl Sending {
    /// Forgets what has been begun to be written since.
    pub(crate) fn note_written(&mut self) {
        let written = self.batch.written();
        while self
            .unsent
            .front()
            .is_some_and(|first| first.start < written)
        {
            self.unsent.pop_front();
        }
    }
}

fn wake(wakers: Vec<Waker>) {
    for waker in wakers {
        waker.wake();
    }
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// What the writer has put together.
    pub(crate) fn sending(&self) -> MutexGuard<'_, Sending> {
        lock(&self.sending)
    }

    /// Asks, and waits for the outcome.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the request.
    pub(crate) async fn ask(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        let mut entry = Entry {
            line: self,
            id: None,
        };
        let mut payload = Some(payload);
        poll_fn(|cx| {
            let mut state = self.state();
            let Some(id) = entry.id else {
                if state.closed {
                    return Poll::Ready(Err(Error::closed()));
                }
                let payload = payload.take().unwrap_or_default();
                entry.id = Some(state.slots.insert(payload, deadline, cx.waker().clone()));
                let earlier = state.armed.is_none_or(|armed| deadline < armed);
                if earlier {
                    state.armed = Some(deadline);
                }
                let idle = std::mem::take(&mut state.idle);
                drop(state);
                if earlier {
                    self.earlier.notify_one();
                }
                if idle {
                    self.wake.notify_one();
                }
                return Poll::Pending;
            };
            if let Some(Slot {
                phase: Phase::Queued(_) | Phase::Taken,
                waker,
                ..
            }) = state.slots.get(id)
            {
                match waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    none => *none = Some(cx.waker().clone()),
                }
                return Poll::Pending;
            }
            entry.id = None;
            match state.slots.release(id) {
                Phase::Done(outcome) => Poll::Ready(outcome),
                _ => Poll::Ready(Err(Error::closed())),
            }
        })
        .await
    }

    /// Puts requests into the batch, up to its boundary; none of more than `largest` bytes. Returns
    /// whether there is something to write; if not, the writer is woken by the next request.
    pub(crate) fn take(&self, sending: &mut Sending, largest: usize) -> bool {
        let Sending {
            batch,
            unsent,
            taken,
        } = sending;
        let mut refused = Vec::new();
        {
            let mut state = self.state();
            let mut size = batch.len();
            while size < BOUNDARY
                && let Some((id, payload)) = state.slots.take()
            {
                if payload.len() > largest {
                    let error = Error::too_large("a request", payload.len(), largest);
                    state.slots.settle(id, Err(error), &mut refused);
                    continue;
                }
                size += REQUEST_HEADER + payload.len();
                taken.push((id, payload));
            }
            state.idle = taken.is_empty() && batch.is_empty();
        }
        wake(refused);
        // Copied without the lock, which every caller needs.
        for (id, payload) in taken.drain(..) {
            let start = batch.end();
            batch.frame(Kind::Request, &id.to_le_bytes(), &payload);
            unsent.push_back(Unsent { id, start, payload });
        }
        !batch.is_empty()
    }

    /// Gives outcomes to those who still wait for them: a reply, or that there is none.
    pub(crate) fn settle(&self, outcomes: &mut Vec<(u64, Option<Bytes>)>) {
        if outcomes.is_empty() {
            return;
        }
        let mut wakers = Vec::with_capacity(outcomes.len());
        {
            let mut state = self.state();
            for (id, reply) in outcomes.drain(..) {
                // A reply to what was not sent, or was answered, or given up: nobody's.
                if state.slots.is_taken(id) {
                    state
                        .slots
                        .settle(id, reply.ok_or_else(no_reply), &mut wakers);
                }
            }
        }
        wake(wakers);
    }

    /// The link broke: what was sent may have run, what was not waits for the next link.
    pub(crate) fn lose_link(&self) {
        let mut wakers = Vec::new();
        {
            let mut sending = self.sending();
            let mut state = self.state();
            take_back(&mut sending, &mut state);
            sending.batch.rest();
            let taken = |slot: &&Slot| matches!(slot.phase, Phase::Taken);
            let lost: Vec<u64> = state
                .slots
                .all()
                .filter(taken)
                .map(|slot| slot.id)
                .collect();
            for id in lost {
                let error = Error::new(
                    ErrorKind::ConnectionLost,
                    "the link broke after the request was sent",
                );
                state.slots.settle(id, Err(error), &mut wakers);
            }
        }
        wake(wakers);
    }

    /// Ends every request. Those to come are refused.
    pub(crate) fn close(&self) {
        let mut wakers = Vec::new();
        {
            let mut state = self.state();
            state.closed = true;
            let all: Vec<u64> = state.slots.all().map(|slot| slot.id).collect();
            for id in all {
                state.slots.settle(id, Err(Error::closed()), &mut wakers);
            }
        }
        wake(wakers);
        self.earlier.notify_one();
    }

    /// Ends requests at their deadlines, for as long as it is polled. One timer serves all of them.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn watch_deadlines(&self, clock: Clock) {
        loop {
            let armed = self.state().armed;
            match armed {
                None => self.earlier.notified().await,
                Some(armed) => tokio::select! {
                    () = clock.until(armed) => self.expire(clock.now()),
                    () = self.earlier.notified() => {}
                },
            }
        }
    }

    fn expire(&self, now: Instant) {
        let mut wakers = Vec::new();
        let mut taken = Vec::new();
        {
            let mut state = self.state();
            let mut expired = Vec::new();
            let mut next: Option<Instant> = None;
            for slot in state.slots.all() {
                match slot.phase {
                    Phase::Queued(_) if slot.deadline <= now => expired.push(slot.id),
                    Phase::Taken if slot.deadline <= now => taken.push(slot.id),
                    Phase::Queued(_) | Phase::Taken => {
                        let earliest = next.map_or(slot.deadline, |next| next.min(slot.deadline));
                        next = Some(earliest);
                    }
                    Phase::Free | Phase::Done(_) => {}
                }
            }
            state.armed = next;
            for id in expired {
                state.slots.settle(id, Err(unreachable()), &mut wakers);
            }
        }
        if !taken.is_empty() {
            let mut sending = self.sending();
            let mut state = self.state();
            if sending
                .unsent
                .iter()
                .any(|unsent| taken.contains(&unsent.id))
            {
                take_back(&mut sending, &mut state);
            }
            for id in taken {
                let outcome = match state.slots.get(id).map(|slot| &slot.phase) {
                    Some(Phase::Queued(_)) => unreachable(),
                    _ => Error::new(ErrorKind::TimedOut, "no reply before the deadline"),
                };
                state.slots.settle(id, Err(outcome), &mut wakers);
            }
        }
        wake(wakers);
    }

    /// Forgets a request whose caller has gone.
    fn forget(&self, id: u64) {
        {
            let mut state = self.state();
            if !state.slots.is_taken(id) {
                state.slots.release(id);
                return;
            }
        }
        let mut sending = self.sending();
        let mut state = self.state();
        if sending.unsent.iter().any(|unsent| unsent.id == id) {
            take_back(&mut sending, &mut state);
        }
        state.slots.release(id);
    }
}

/// Puts what was taken and not sent back to the head of the queue, in its order. The writer takes
/// it again when it has written what it began.
fn take_back(sending: &mut Sending, state: &mut State) {
    let Some(first) = sending.unsent.front() else {
        return;
    };
    sending.batch.truncate(first.start);
    while let Some(Unsent { id, payload, .. }) = sending.unsent.pop_back() {
        state.slots.put_back(id, payload);
    }
}

fn unreachable() -> Error {
    Error::new(
        ErrorKind::Unreachable,
        "the server could not be reached before the deadline",
    )
}

/// A caller's place in the line. Dropping it forgets the request.
struct Entry<'a> {
    line: &'a Line,
    id: Option<u64>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.line.forget(id);
        }
    }
}

/// Writes what was put together, once; resolves with whether that was all of it, and nothing of it
/// is left on the way to the socket.
///
/// # Cancel safety
/// What was not written stays.
pub(crate) async fn write_once<W>(line: &Line, stream: &mut W) -> std::io::Result<bool>
where
    W: AsyncWrite + Unpin,
{
    poll_fn(|cx| {
        let mut sending = line.sending();
        let sending = &mut *sending;
        if !sending.batch.is_empty() {
            let polled = sending.batch.poll_write(cx, stream);
            sending.note_written();
            ready!(polled)?;
            if !sending.batch.is_empty() {
                return Poll::Ready(Ok(false));
            }
        }
        Pin::new(&mut *stream).poll_flush(cx).map_ok(|()| true)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::REQUEST_HEADER;
    use std::future::Future;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};

    type Asking<'a> = Pin<Box<dyn Future<Output = Result<Bytes>> + 'a>>;

    /// Asks thrice, and hands half of the first request to a socket that takes no more.
    async fn begun<'a>(
        line: &'a Line,
        until: Instant,
        stream: &mut DuplexStream,
    ) -> Vec<Asking<'a>> {
        let mut asking = Vec::new();
        for byte in 0..3 {
            let payload = Bytes::from(vec![byte; 100]);
            let mut ask: Asking<'_> = Box::pin(line.ask(payload, until));
            assert!(
                poll_fn(|cx| Poll::Ready(ask.as_mut().poll(cx)))
                    .await
                    .is_pending()
            );
            asking.push(ask);
        }
        assert!(line.take(&mut line.sending(), 1000));
        assert!(!write_once(line, stream).await.unwrap());
        asking
    }

    /// All that arrives when the socket takes it again.
    async fn rest(line: &Line, mut stream: DuplexStream, mut at: DuplexStream) -> Vec<u8> {
        let writing = async {
            loop {
                while !write_once(line, &mut stream).await.unwrap() {}
                if !line.take(&mut line.sending(), 1000) {
                    break drop(stream);
                }
            }
        };
        let mut arrived = Vec::new();
        let (read, ()) = tokio::join!(at.read_to_end(&mut arrived), writing);
        read.unwrap();
        arrived
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_deadline_only_what_was_begun_counts_as_sent() {
        let (line, clock) = (Line::default(), Clock);
        let (mut stream, at) = duplex(50);
        let until = clock.after(Duration::from_secs(1));
        let asking = begun(&line, until, &mut stream).await;
        clock.until(until).await;
        line.expire(clock.now());
        let mut kinds = Vec::new();
        for ask in asking {
            kinds.push(ask.await.unwrap_err().kind());
        }
        use ErrorKind::{TimedOut, Unreachable};
        assert_eq!(kinds, [TimedOut, Unreachable, Unreachable]);
        let arrived = rest(&line, stream, at).await;
        assert_eq!(arrived.len(), REQUEST_HEADER + 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_goes_takes_back_what_was_not_begun() {
        let (line, clock) = (Line::default(), Clock);
        let (mut stream, at) = duplex(50);
        let until = clock.after(Duration::from_secs(1));
        let mut asking = begun(&line, until, &mut stream).await;
        drop(asking.remove(1));
        drop(asking.remove(0));
        let arrived = rest(&line, stream, at).await;
        assert_eq!(arrived.len(), 2 * (REQUEST_HEADER + 100));
        assert_eq!((arrived[20], arrived[arrived.len() - 1]), (0, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn deadlines_are_kept_in_whatever_order_they_come() {
        let (line, clock) = (Line::default(), Clock);
        let start = clock.now();
        let ask = async |seconds| {
            let until = start + Duration::from_secs(seconds);
            let outcome = line.ask(Bytes::new(), until).await;
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unreachable);
            let late = clock.now().duration_since(until);
            assert!(late < Duration::from_millis(5), "{late:?}");
        };
        tokio::select! {
            () = line.watch_deadlines(clock) => {}
            _ = async { tokio::join!(ask(5), ask(1), ask(9), ask(1), ask(3)) } => {}
        }
        assert_eq!(clock.now().duration_since(start).as_secs(), 9);
    }
}
