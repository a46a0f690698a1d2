//! The requests that have come while as many as may be are unanswered.
//!
//! The ROUTER socket is read on meanwhile, since greetings, pings and the requests of all clients come in through it: a client
//! that asks much must not keep the others from connecting. What is read then is bounded in bytes.

use std::collections::VecDeque;

use saline_protocol::transport::Request;

/// Bytes of requests that wait, also of those that have not come as a whole, before nothing more is read.
const MAX_BYTES: usize = 4 << 20;

/// What a request counts as, beside its payload.
const OVERHEAD: usize = 256;

/// Requests in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct RequestLine {
    requests: VecDeque<Request>,
    bytes: usize,
}

fn size(request: &Request) -> usize {
    request.payload.len() + OVERHEAD
}

impl RequestLine {
    /// Returns how many requests wait.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Adds a request at the end.
    pub(crate) fn push(&mut self, request: Request) {
        self.bytes += size(&request);
        self.requests.push_back(request);
    }

    /// Takes the first request.
    pub(crate) fn pop(&mut self) -> Option<Request> {
        let first = self.requests.pop_front()?;
        self.bytes -= size(&first);
        Some(first)
    }

    /// Drops all requests, which tells their clients that there will be no reply.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns whether nothing more may be read, with so many bytes of requests that have not come as a whole.
    pub(crate) fn is_full(&self, partial_bytes: usize) -> bool {
        self.bytes.saturating_add(partial_bytes) >= MAX_BYTES
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use saline_protocol::transport::{Answer, Peer, Reply, ReplyRoute, ReplyToken, Source};

    use super::*;

    #[derive(Debug)]
    struct Nowhere;

    impl ReplyRoute for Nowhere {
        fn answer(&self, _token: ReplyToken, _answer: Answer) {}
    }

    fn request(size: usize) -> Request {
        let token = ReplyToken {
            connection: 1,
            request: 1,
        };
        let reply = Reply::new(Arc::new(Nowhere), token, size);
        Request::new(
            Peer::new(1, Source::Process),
            Bytes::from(vec![0; size]),
            reply,
        )
    }

    #[test]
    fn it_is_full_by_its_bytes_and_has_room_again() {
        let mut line = RequestLine::default();
        while !line.is_full(0) {
            line.push(request(64 << 10));
        }
        assert_eq!(line.len(), 64);
        assert_eq!(line.pop().map(|first| first.payload.len()), Some(64 << 10));
        assert!(!line.is_full(0) && line.is_full(MAX_BYTES));
        while line.pop().is_some() {}
        assert_eq!(line.bytes, 0);
        while !line.is_full(0) {
            line.push(request(0));
        }
        assert_eq!(line.len(), MAX_BYTES / OVERHEAD, "small ones count too");
    }
}
