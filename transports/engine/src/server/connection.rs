//! One connection on the serving side, as handlers, publishers and its tasks see it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use saline_protocol::transport::{Answer, Context, Peer, ReplyRoute, ReplyToken};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::ServerCore;
use crate::lock;
use crate::state::{Drained, EnqueueResult, Next, OutboundQueue};
use crate::wire::{Greeting, PublicationFrame, SendBuffer};

/// A connection whose client has greeted.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: Peer,
    pub(super) core: Arc<ServerCore>,
    /// The greeting of its client.
    pub(super) client: Greeting,
    queue: Mutex<OutboundQueue>,
    /// Tells the writer that there is something to write.
    pub(super) wake: Notify,
    /// Tells the reader that little enough is owed.
    room: Notify,
    /// Tells the reader that it may reserve permits.
    pub(super) permits: Notify,
    /// A session stands with its peer.
    has_session: AtomicBool,
    /// The connection is over.
    pub(super) closed: CancellationToken,
    /// The same, cheap to ask.
    is_closed: AtomicBool,
    /// The writer has written everything there was, and nothing follows.
    pub(super) flushed: CancellationToken,
}

impl Connection {
    pub(super) fn new(core: Arc<ServerCore>, peer: Peer, client: Greeting) -> Arc<Self> {
        let limits = &core.lifetime.context.limits;
        Arc::new(Self {
            peer,
            client,
            queue: Mutex::new(OutboundQueue::new(limits, client.max_message)),
            wake: Notify::new(),
            room: Notify::new(),
            permits: Notify::new(),
            has_session: AtomicBool::new(false),
            closed: CancellationToken::new(),
            is_closed: AtomicBool::new(false),
            flushed: CancellationToken::new(),
            core,
        })
    }

    /// Returns the connection's number.
    pub(super) fn number(&self) -> u64 {
        self.peer.connection
    }

    /// Returns whether the connection is over.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Takes note that a session stands with the peer, and has it told.
    pub(super) fn admit(&self) {
        let limits = &self.context().limits;
        if self.has_session.swap(true, Ordering::AcqRel) || limits.admission.is_none() {
            return;
        }
        let mut queue = self.queue();
        queue.admit(limits, self.client.hears_admission);
        self.tell_writer(queue, 0);
        // More may be owed to it than before.
        self.room.notify_one();
    }

    /// Returns whether a session stands with the peer.
    pub(super) fn has_session(&self) -> bool {
        self.has_session.load(Ordering::Acquire)
    }

    /// Returns how many filters its subscriptions may have together.
    pub(super) fn most_filters(&self) -> usize {
        let limits = &self.context().limits;
        let most = limits.subscriptions_per_connection;
        match &limits.admission {
            Some(admission) if !self.has_session() => most.min(admission.subscriptions),
            _ => most,
        }
    }

    /// Returns what the server was given.
    pub(super) fn context(&self) -> &Context {
        &self.core.lifetime.context
    }

    fn queue(&self) -> MutexGuard<'_, OutboundQueue> {
        lock(&self.queue)
    }

    /// Unlocks, and wakes the writer if it has to know of what was queued, of which so many are
    /// answers.
    fn tell_writer(&self, mut queue: MutexGuard<'_, OutboundQueue>, answered: usize) {
        let wake = queue.take_wake(answered);
        drop(queue);
        if wake {
            self.wake.notify_one();
        }
    }

    /// Ends the connection where it stands.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.queue().close();
        self.closed.cancel();
    }

    /// Takes note of requests that are handed to the handler.
    pub(super) fn expect_answers(&self, requests: usize) {
        self.queue().expect_answers(requests);
    }

    /// Queues the answer to a subscription.
    pub(super) fn confirm(&self, subscription: u64, granted: bool) {
        let mut queue = self.queue();
        queue.confirm(subscription, granted);
        self.tell_writer(queue, 0);
    }

    /// Queues a publication for one subscription.
    pub(super) fn publish(
        &self,
        number: u64,
        publication: &PublicationFrame,
        subscription: u64,
    ) -> EnqueueResult {
        let mut queue = self.queue();
        let result = queue.publish(number, publication, subscription);
        self.tell_writer(queue, 0);
        result
    }

    /// Returns the bytes that wait to be written, about; `None` when they should not wait for more.
    pub(super) fn gathered(&self) -> Option<usize> {
        let queue = self.queue();
        queue.is_gathering().then(|| queue.waiting())
    }

    /// Encodes what is to be written next into `buffer`.
    pub(super) fn drain(&self, buffer: &mut SendBuffer, drained: &mut Drained) -> Next {
        let next = self.queue().drain(buffer.len(), drained);
        if drained.has_room {
            self.room.notify_one();
        }
        // Copied without the lock, which handlers and publishers need.
        drained.encode_into(buffer, self.client.max_message);
        next
    }

    /// Gives back the memory that an idle connection does not need.
    pub(super) fn rest(&self) {
        self.queue().rest();
    }

    /// Waits until little enough is owed that more may be read. Returns whether it had to.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn room(&self) -> bool {
        let mut waited = false;
        while self.queue().is_overdrawn() {
            waited = true;
            self.room.notified().await;
        }
        waited
    }
}

impl ReplyRoute for Connection {
    fn answer(&self, token: ReplyToken, answer: Answer) {
        self.core.release_permits(1);
        let mut queue = self.queue();
        queue.answer(token.request, answer);
        self.tell_writer(queue, 1);
    }
}

#[cfg(test)]
mod tests;
