//! The segments that one end receives, until they are read.

use std::collections::BTreeMap;

use bytes::{Buf, BytesMut};
use tokio::io::ReadBuf;

use super::datagram::{Ack, MOST_EARLY};
use super::{FIRST_WINDOW, MOST_SEGMENTS, WINDOW};

/// The room for bytes that an idle connection may keep.
const IDLE_ROOM: usize = 4 * 1024;

/// One direction of a connection, at the end that receives.
#[derive(Debug)]
pub(super) struct Receiving {
    /// The first segment that has not arrived.
    next: u64,
    /// Those after it that have; an empty one is the end.
    early: BTreeMap<u64, Vec<u8>>,
    early_bytes: usize,
    /// What can be read.
    bytes: BytesMut,
    arrived: u64,
    read: u64,
    allowed: u64,
    packets: u64,
    is_over: bool,
}

/// What became of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Took {
    /// There is more to read, or nothing follows.
    Readable,
    /// It is kept, or was known: it is acknowledged.
    Kept,
    /// There is no room for it now, as if it had not arrived.
    Dropped,
}

impl Receiving {
    /// Nothing has arrived.
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            early: BTreeMap::new(),
            early_bytes: 0,
            bytes: BytesMut::new(),
            arrived: 0,
            read: 0,
            allowed: FIRST_WINDOW,
            packets: 0,
            is_over: false,
        }
    }

    /// Returns how many bytes it holds.
    pub(super) fn held(&self) -> usize {
        self.bytes.len() + self.early_bytes
    }

    /// Whether everything has arrived, and the end.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes a segment, the end where it is empty. Where the socket holds too much for all, it takes only what it must.
    ///
    /// # Errors
    /// When it breaks the rules.
    pub(super) fn take(
        &mut self,
        (packet, segment): (u64, u64),
        bytes: &[u8],
        is_crowded: bool,
    ) -> Result<Took, &'static str> {
        let must = segment == self.next && self.bytes.is_empty();
        if is_crowded && !must && self.held() as u64 >= FIRST_WINDOW {
            return Ok(Took::Dropped);
        }
        // One more than data may have: the end.
        if segment > self.next.saturating_add(MOST_SEGMENTS) || packet == u64::MAX {
            return Err("a segment that is far ahead");
        }
        self.packets = self.packets.max(packet + 1);
        if segment < self.next || self.early.contains_key(&segment) {
            return Ok(Took::Kept);
        }
        if self.is_over {
            return Err("a segment behind the end");
        }
        self.arrived += bytes.len() as u64;
        if self.arrived > self.allowed {
            return Err("more bytes than the window allows");
        }
        if segment > self.next {
            self.early_bytes += bytes.len();
            self.early.insert(segment, bytes.to_vec());
            return Ok(Took::Kept);
        }
        self.append(bytes);
        while let Some(early) = self.early.remove(&self.next) {
            self.early_bytes -= early.len();
            if self.is_over {
                return Err("a segment behind the end");
            }
            self.append(&early);
        }
        Ok(Took::Readable)
    }

    /// Panics when it holds more than the peer was allowed to send, or other bytes than it counts.
    pub(super) fn check(&self) {
        let window = WINDOW.min(FIRST_WINDOW + self.read);
        let held = self.held() as u64;
        assert!(held <= window, "{held} bytes in a window of {window}");
        let early: usize = self.early.values().map(Vec::len).sum();
        assert_eq!(early, self.early_bytes);
        let first = self.early.first_key_value();
        assert!(first.is_none_or(|(first, _)| *first > self.next));
    }

    fn append(&mut self, bytes: &[u8]) {
        self.next += 1;
        self.bytes.extend_from_slice(bytes);
        self.is_over |= bytes.is_empty();
    }

    /// Reads what has arrived. Returns false when there is nothing.
    pub(super) fn read(&mut self, into: &mut ReadBuf<'_>) -> bool {
        let size = self.bytes.len().min(into.remaining());
        if size == 0 {
            return false;
        }
        into.put_slice(&self.bytes[..size]);
        self.bytes.advance(size);
        self.read += size as u64;
        if self.bytes.is_empty() && self.bytes.capacity() > IDLE_ROOM {
            self.bytes = BytesMut::new();
        }
        true
    }

    /// Lets the peer send more, as far as was read. Returns true when it is time to tell it.
    pub(super) fn allow(&mut self) -> bool {
        let window = WINDOW.min(FIRST_WINDOW + self.read);
        let allowed = self.read + window;
        let is_due = allowed - self.allowed >= window / 2 && !self.is_over;
        if is_due {
            self.allowed = allowed;
        }
        is_due
    }

    /// Returns what has arrived.
    pub(super) fn ack(&self) -> Ack {
        let mut early = Vec::new();
        for number in self.early.keys() {
            let bit = (number - self.next - 1) as usize;
            if bit >= 8 * MOST_EARLY {
                break;
            }
            early.resize(early.len().max(bit / 8 + 1), 0);
            early[bit / 8] |= 1 << (bit % 8);
        }
        Ack {
            next: self.next,
            allowed: self.allowed,
            packets: self.packets,
            early,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: [u8; 1000] = [7; 1000];

    #[test]
    fn where_the_socket_holds_too_much_a_connection_takes_what_it_needs_to_go_on() {
        let mut receiving = Receiving::new();
        let take = |receiving: &mut Receiving, n| receiving.take((n, n), &SEGMENT, true);
        // Those after the first, as far as its share goes.
        let mut n = 1;
        while take(&mut receiving, n) == Ok(Took::Kept) && n < 100 {
            n += 1;
            receiving.allowed += 1000;
        }
        assert_eq!(take(&mut receiving, n), Ok(Took::Dropped));
        assert_eq!(receiving.held() as u64, FIRST_WINDOW.next_multiple_of(1000));
        assert_eq!(receiving.ack().next, 0);
        // The first makes all of them readable; further ones wait until they are read.
        assert_eq!(take(&mut receiving, 0), Ok(Took::Readable));
        assert_eq!(take(&mut receiving, n), Ok(Took::Dropped));
        let mut room = vec![0; 100_000];
        assert!(receiving.read(&mut ReadBuf::new(&mut room)));
        assert_eq!(take(&mut receiving, n), Ok(Took::Readable));
    }

    #[test]
    fn the_window_grows_by_what_is_read_and_the_peer_is_told_in_large_steps() {
        let mut receiving = Receiving::new();
        let (mut read, mut told, mut n) = (0, 0, 0);
        while read < 2 * WINDOW {
            assert_eq!(receiving.take((n, n), &SEGMENT, false), Ok(Took::Readable));
            let mut room = [0; 1000];
            receiving.read(&mut ReadBuf::new(&mut room));
            (read, n) = (read + 1000, n + 1);
            told += u64::from(receiving.allow());
        }
        assert!(told < 16, "{told} times");
        let left = receiving.ack().allowed - read;
        assert!(left <= WINDOW && left > WINDOW / 2, "{left}");
    }
}
