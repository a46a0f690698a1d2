//! The requests that a client's writer has put together, until a connection accepts them.

use std::collections::VecDeque;

use bytes::Bytes;

use super::PendingRequests;
use crate::wire::{FrameKind, SendBuffer};

/// The requests that a client has taken from its [`PendingRequests`] and not sent yet, so that they can be taken back.
pub trait Unsent {
    /// Returns whether any of these requests is not sent yet.
    fn holds_any(&self, ids: &[u64]) -> bool;

    /// Puts every request that is not sent back to the head of the queue, in its order.
    fn take_back<W>(&mut self, pending: &mut PendingRequests<W>);
}

impl Unsent for () {
    fn holds_any(&self, _ids: &[u64]) -> bool {
        false
    }

    fn take_back<W>(&mut self, _pending: &mut PendingRequests<W>) {}
}

/// The bytes that a client is about to write. A request counts as sent when its first byte was accepted; until
/// then it is remembered here, and can be taken back.
#[derive(Debug, Default)]
pub(crate) struct StagedRequests {
    pub(crate) buffer: SendBuffer,
    /// The requests in the buffer of which nothing was accepted.
    unsent: VecDeque<UnsentRequest>,
}

#[derive(Debug)]
struct UnsentRequest {
    id: u64,
    /// The offset of its beginning in the buffer.
    start: u64,
    payload: Bytes,
}

impl StagedRequests {
    /// Adds a request that was taken.
    pub(crate) fn push(&mut self, id: u64, payload: Bytes) {
        let start = self.buffer.end();
        self.buffer.message(FrameKind::Request, id, &payload);
        self.unsent.push_back(UnsentRequest { id, start, payload });
    }

    /// Takes note of what the connection has accepted of the buffer.
    pub(crate) fn note_written(&mut self) {
        let written = self.buffer.written();
        let is_begun = |first: &UnsentRequest| first.start < written;
        while self.unsent.front().is_some_and(is_begun) {
            self.unsent.pop_front();
        }
    }
}

impl Unsent for StagedRequests {
    fn holds_any(&self, ids: &[u64]) -> bool {
        self.unsent.iter().any(|unsent| ids.contains(&unsent.id))
    }

    /// The writer takes the requests again when it has written what it began.
    fn take_back<W>(&mut self, pending: &mut PendingRequests<W>) {
        let Some(first) = self.unsent.front() else {
            return;
        };
        self.buffer.truncate(first.start);
        while let Some(UnsentRequest { id, payload, .. }) = self.unsent.pop_back() {
            pending.put_back(id, payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;
    use crate::state::testing::Accepts;
    use crate::wire::frame::REQUEST_HEADER;

    #[test]
    fn a_request_of_which_nothing_was_accepted_is_not_sent() {
        let mut staged = StagedRequests::default();
        (1..=2).for_each(|id| staged.push(id, Bytes::from_static(b"four")));
        let mut pipe = Accepts::default();
        let mut write = |staged: &mut StagedRequests, most| {
            pipe.most = most;
            let mut cx = Context::from_waker(Waker::noop());
            let _ = staged.buffer.poll_write(&mut cx, &mut pipe);
            staged.note_written();
            [1, 2].map(|id| staged.holds_any(&[id]))
        };
        // A pipe that takes nothing more ends a write.
        assert_eq!(write(&mut staged, 0), [true, true]);
        assert_eq!(write(&mut staged, REQUEST_HEADER + 4), [false, true]);
        assert_eq!(write(&mut staged, 1), [false, false]);
    }
}
