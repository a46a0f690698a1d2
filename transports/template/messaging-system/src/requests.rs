//! The requests of a client and their outcomes. The engine's state machine decides; this drives it.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bytes::Bytes;
use saline_engine::{PendingRequests, QueuedRequest};
use saline_protocol::transport::{Clock, Instant, Result};
use tokio::sync::Notify;

/// The requests of one client.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pending: Mutex<PendingRequests<Waker>>,
    queued: Notify,
    earlier: Notify,
}

impl Requests {
    fn pending(&self) -> MutexGuard<'_, PendingRequests<Waker>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the callers whose requests have outcomes then.
    fn change(&self, change: impl FnOnce(&mut PendingRequests<Waker>, &mut Vec<Waker>)) {
        let mut settled = Vec::new();
        change(&mut self.pending(), &mut settled);
        settled.into_iter().for_each(Waker::wake);
    }

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
        let submitted = poll_fn(|cx| {
            let (payload, waker) = (payload.clone(), cx.waker().clone());
            let now = clock.now();
            Poll::Ready(self.pending().submit(payload, deadline, now, waker))
        });
        let QueuedRequest { id, is_earliest } = submitted.await?;
        let _caller = Caller(self, id);
        self.queued.notify_one();
        if is_earliest {
            self.earlier.notify_one();
        }
        poll_fn(|cx| {
            let wake = |waker: &mut Option<Waker>| *waker = Some(cx.waker().clone());
            let outcome = self.pending().fetch(id, wake);
            outcome.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits for the next request to send; none is above `largest` bytes. It counts as sent, so take
    /// it only when the messaging system has room for it.
    ///
    /// # Cancel safety
    /// No request is lost when the future is dropped.
    pub(crate) async fn next(&self, largest: usize) -> (u64, Bytes) {
        loop {
            let mut next = None;
            self.change(|pending, settled| next = pending.take(largest, settled));
            match next {
                Some(next) => return next,
                None => self.queued.notified().await,
            }
        }
    }

    /// Gives a request its outcome: a reply, or that there is none.
    #[allow(dead_code, reason = "a skeleton; call it where replies come in")]
    pub(crate) fn settle(&self, id: u64, reply: Option<Bytes>) {
        self.change(|pending, settled| pending.settle(id, reply, settled));
    }

    /// Ends the requests that were sent, because the connection is lost. The others wait for the next.
    pub(crate) fn disconnected(&self) {
        self.change(PendingRequests::fail_sent);
    }

    /// Ends every request with `Closed`, and refuses those to come.
    pub(crate) fn close(&self) {
        self.change(PendingRequests::close);
    }

    /// Ends requests at their deadlines, for as long as it is polled.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn watch_deadlines(&self, clock: Clock) {
        loop {
            let next = self.pending().next_deadline();
            match next {
                None => self.earlier.notified().await,
                Some(next) => tokio::select! {
                    () = self.earlier.notified() => {}
                    () = clock.until(next) => self.change(|pending, settled| {
                        let taken = pending.expire(clock.now(), settled);
                        pending.expire_taken(taken, settled);
                    }),
                },
            }
        }
    }
}

/// A caller that waits. Dropping it forgets its request.
struct Caller<'a>(&'a Requests, u64);

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.0.pending().abandon(self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_protocol::transport::ErrorKind;
    use std::time::Duration;

    #[tokio::test]
    async fn a_request_has_one_outcome() {
        let requests = Requests::default();
        let later = Clock.after(Duration::from_secs(60));
        let serve = async {
            let (id, payload) = requests.next(100).await;
            requests.settle(id, Some(payload));
            // A second reply is nobody's.
            requests.settle(id, None);
        };
        let (reply, ()) = tokio::join!(requests.ask("ping".into(), later, Clock), serve);
        assert_eq!(reply.unwrap(), "ping");

        let lose = async {
            requests.next(100).await;
            requests.disconnected();
        };
        let (lost, ()) = tokio::join!(requests.ask("ping".into(), later, Clock), lose);
        assert_eq!(lost.unwrap_err().kind(), ErrorKind::ConnectionLost);

        let soon = Clock.after(Duration::from_millis(1));
        let late = tokio::select! {
            late = requests.ask("ping".into(), soon, Clock) => late,
            () = requests.watch_deadlines(Clock) => unreachable!(),
        };
        assert_eq!(late.unwrap_err().kind(), ErrorKind::Unreachable);

        let passed = requests.ask("ping".into(), Clock.now(), Clock).await;
        assert_eq!(passed.unwrap_err().kind(), ErrorKind::Unreachable);

        requests.close();
        let closed = requests.ask("ping".into(), later, Clock).await;
        assert_eq!(closed.unwrap_err().kind(), ErrorKind::Closed);
    }
}
