//! Requests that are too large for one message of the request port: a client sends them in parts, and the server
//! puts them together.
//!
//! libzmq has one bound of messages for all connections of a socket and makes room for a message when its length is
//! announced, before anybody knows whose it is. So that bound is the size of a part, and what the parts of one request
//! may come to depends on who sends them.

use bytes::{Bytes, BytesMut};
use saline_protocol::transport::{Instant, Limits};

use crate::frame::{Frame, join};
use crate::number_map::NumberMap;

/// The most bytes of a payload in one message of the request port.
pub(crate) const MAX_PART: usize = 64 << 10;

/// Returns the message with the bytes of a request from `from` on, and where the next one begins: at the end of
/// `payload` there is none.
pub(crate) fn next_part(id: u64, payload: &[u8], from: usize) -> (zmq::Message, usize) {
    let end = payload.len().min(from.saturating_add(MAX_PART));
    let frame = match end < payload.len() {
        true => Frame::Part(id),
        false => Frame::Request(id),
    };
    let part = payload.get(from..end).unwrap_or_default();
    (join(&frame.header(), part), end)
}

/// The requests of which parts have come and others have not: one for each connection, whose client sends the parts of
/// one request before anything of another.
#[derive(Debug)]
pub(crate) struct PartialRequests {
    by_connection: NumberMap<u32, PartialRequest>,
    /// Bytes in all of them.
    bytes: usize,
    /// Bytes in those whose peers were not admitted when they began.
    bytes_of_strangers: usize,
    limits: Limits,
}

#[derive(Debug)]
struct PartialRequest {
    id: u64,
    /// None once it is refused: then no more of it is kept.
    bytes: Option<BytesMut>,
    /// When it has to be whole. None for an admitted peer, whose bytes are not counted with those of strangers.
    until: Option<Instant>,
}

impl PartialRequests {
    /// Returns a table without requests.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            by_connection: NumberMap::default(),
            bytes: 0,
            bytes_of_strangers: 0,
            limits: limits.clone(),
        }
    }

    /// Returns the bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a part of a request that is not its last. Returns false when it is refused, for its size or for what
    /// all strangers hold; then so is what follows of that request.
    pub(crate) fn add(
        &mut self,
        connection: u32,
        id: u64,
        part: &[u8],
        is_admitted: bool,
        now: Instant,
    ) -> bool {
        let is_begun = |partial: &PartialRequest| partial.id == id;
        if !self.by_connection.get(&connection).is_some_and(is_begun) {
            self.forget(connection);
        }
        let strangers = self.limits.admission.as_ref().filter(|_| !is_admitted);
        let partial = self
            .by_connection
            .entry(connection)
            .or_insert_with(|| PartialRequest {
                id,
                bytes: Some(BytesMut::new()),
                until: strangers.map(|limits| now + limits.time),
            });
        let Some(bytes) = &mut partial.bytes else {
            return false;
        };
        let shared = match (&self.limits.admission, partial.until) {
            (Some(limits), Some(_)) => {
                Some(limits.partial_bytes.saturating_sub(self.bytes_of_strangers))
            }
            _ => None,
        };
        let is_too_large = bytes.len() + part.len() > self.limits.max_message;
        if is_too_large || shared.is_some_and(|left| part.len() > left) {
            self.refuse(connection);
            return false;
        }
        bytes.extend_from_slice(part);
        self.bytes += part.len();
        if shared.is_some() {
            self.bytes_of_strangers += part.len();
        }
        true
    }

    /// Takes the last part of a request, or all of it. Returns the whole; none when parts of it were refused.
    pub(crate) fn finish(&mut self, connection: u32, id: u64, last: Bytes) -> Option<Bytes> {
        match self.remove(connection) {
            Some(partial) if partial.id == id => {
                let mut bytes = partial.bytes?;
                bytes.extend_from_slice(&last);
                Some(bytes.freeze())
            }
            // What a client gave up has no end.
            _ => Some(last),
        }
    }

    /// Refuses the requests of strangers that are not whole in time. Returns how many.
    pub(crate) fn refuse_late(&mut self, now: Instant) -> usize {
        let is_late = |partial: &PartialRequest| {
            partial.bytes.is_some() && partial.until.is_some_and(|until| now > until)
        };
        let late = self
            .by_connection
            .iter()
            .filter(|(_, partial)| is_late(partial));
        let late: Vec<u32> = late.map(|(connection, _)| *connection).collect();
        for connection in &late {
            self.refuse(*connection);
        }
        late.len()
    }

    /// Forgets what has come of a request on this connection.
    pub(crate) fn forget(&mut self, connection: u32) {
        self.remove(connection);
    }

    fn remove(&mut self, connection: u32) -> Option<PartialRequest> {
        let partial = self.by_connection.remove(&connection)?;
        if let Some(bytes) = &partial.bytes {
            self.bytes -= bytes.len();
            if partial.until.is_some() {
                self.bytes_of_strangers -= bytes.len();
            }
        }
        Some(partial)
    }

    fn refuse(&mut self, connection: u32) {
        if let Some(partial) = self.remove(connection) {
            let bytes = None;
            let refused = PartialRequest { bytes, ..partial };
            self.by_connection.insert(connection, refused);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use saline_protocol::transport::{AdmissionLimits, Clock};
    use std::time::Duration;

    /// A table in which requests may have 1,000 bytes, and those of strangers 100 together.
    fn table() -> PartialRequests {
        let mut limits = Limits::default();
        limits.max_message = 1_000;
        let mut admission = AdmissionLimits::default();
        admission.partial_bytes = 100;
        limits.admission = Some(admission);
        PartialRequests::new(&limits)
    }

    fn last() -> Bytes {
        Bytes::from_static(b"last")
    }

    #[test]
    fn what_strangers_hold_together_is_bounded() {
        let (mut table, now) = (table(), Clock.now());
        assert!(table.add(1, 1, &[0; 60], false, now));
        assert!(!table.add(2, 1, &[0; 41], false, now), "101 bytes");
        assert!(!table.add(2, 1, &[], false, now), "it was refused");
        assert!(table.add(3, 1, &[0; 999], true, now), "no stranger");
        assert!(table.add(4, 1, &[0; 40], false, now));
        assert!(!table.add(1, 1, &[0], false, now));
        assert_eq!(table.finish(1, 1, last()), None);
        assert_eq!(table.finish(2, 1, last()), None);
        assert_eq!(table.finish(4, 1, last()).unwrap().len(), 44);
        assert_eq!(table.bytes_of_strangers, 0);
        assert_eq!(table.finish(2, 2, last()), Some(last()));
    }

    #[test]
    fn a_request_is_no_larger_than_a_message_may_be() {
        let (mut table, now) = (table(), Clock.now());
        for _ in 0..10 {
            assert!(table.add(1, 1, &[0; 100], true, now));
        }
        assert!(!table.add(1, 1, &[0], true, now));
        assert_eq!(table.finish(1, 1, last()), None);
    }

    #[test]
    fn strangers_have_their_time() {
        let (mut table, now) = (table(), Clock.now());
        let until = now + AdmissionLimits::default().time;
        assert!(table.add(1, 1, &[0; 60], false, now) && table.add(2, 1, &[0; 60], true, now));
        assert_eq!(table.refuse_late(until), 0);
        let late = until + Duration::from_millis(1);
        assert_eq!(table.refuse_late(late), 1);
        assert_eq!(table.refuse_late(late), 0);
        assert_eq!(table.bytes_of_strangers, 0);
        assert_eq!(table.finish(1, 1, last()), None);
        assert_eq!(table.finish(2, 1, last()).unwrap().len(), 64);
    }

    #[test]
    fn a_request_that_was_given_up_is_no_part_of_the_next() {
        let (mut table, now) = (table(), Clock.now());
        assert!(table.add(1, 1, &[0; 60], false, now));
        assert_eq!(table.finish(1, 2, last()), Some(last()));
        assert!(table.add(1, 3, &[0; 60], false, now) && table.add(1, 4, b"first ", false, now));
        assert_eq!(table.finish(1, 4, last()).unwrap(), "first last");
        assert!(table.add(1, 5, &[0; 60], false, now));
        table.forget(1);
        assert_eq!(table.bytes_of_strangers, 0);
    }

    proptest! {
        #[test]
        fn parts_are_put_together(length in 0..4 * MAX_PART) {
            let payload: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut table = PartialRequests::new(&Limits::default());
            let (mut from, now) = (0, Clock.now());
            let whole = loop {
                let (message, end) = next_part(7, &payload, from);
                prop_assert!(message.len() <= MAX_PART + crate::frame::MAX_HEADER);
                let part = &message[crate::frame::REQUEST_HEADER..];
                match Frame::decode(&message) {
                    Some(Frame::Part(7)) => prop_assert!(table.add(1, 7, part, false, now)),
                    Some(Frame::Request(7)) => break table.finish(1, 7, Bytes::copy_from_slice(part)),
                    other => prop_assert!(false, "{:?}", other),
                }
                prop_assert!(end > from);
                from = end;
            };
            prop_assert_eq!(whole.unwrap(), payload);
        }
    }
}
