//! What is too large for one message travels in parts, in both directions, so that other messages pass between
//! them, and a connection that is lost costs one part.

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Jid;

/// The size in bytes above which the payload of a return travels in parts.
pub const PARTS_FROM: usize = 256 * 1024;

/// The most bytes of a part. What is behind it on its connection, and behind its row in a store, waits for that long.
pub const MAX_PART: usize = 1024 * 1024;

/// Identifies what is transferred: the SHA-256 of all of its bytes. So a transfer goes on after a new session,
/// and after a restart of the sender.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TransferId(pub [u8; 32]);

impl TransferId {
    /// Returns the id of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut digest = TransferDigest::default();
        digest.update(bytes);
        digest.id()
    }
}

/// Computes the id of bytes that come one after the other.
#[derive(Clone)]
pub struct TransferDigest(Context);

impl TransferDigest {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the id of what was taken so far.
    pub fn id(&self) -> TransferId {
        let mut id = [0; 32];
        id.copy_from_slice(self.0.clone().finish().as_ref());
        TransferId(id)
    }
}

impl Default for TransferDigest {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl fmt::Debug for TransferDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TransferDigest")
    }
}

impl fmt::Debug for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A part of what is transferred.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The transfer that the part belongs to.
    pub transfer: TransferId,
    /// The length of the whole in bytes.
    pub total: u64,
    /// The place of `bytes` in the whole.
    pub offset: u64,
    /// The bytes from `offset` on.
    pub bytes: Bytes,
}

impl Part {
    /// Whether this is all of what is transferred, and not empty.
    pub fn is_whole(&self) -> bool {
        self.offset == 0 && self.total > 0 && self.end() == Some(self.total)
    }

    /// Returns the place behind the last byte of the part; none if it is behind the whole.
    pub fn end(&self) -> Option<u64> {
        let end = self.offset.checked_add(self.bytes.len() as u64);
        end.filter(|end| *end <= self.total)
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.offset.saturating_add(self.bytes.len() as u64);
        write!(
            f,
            "Part({:?} {}..{end} of {})",
            self.transfer, self.offset, self.total
        )
    }
}

/// A part of the payload of a [`Return`](super::Return), with the rest of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnPart {
    /// The job that returned.
    pub jid: Jid,
    /// As in a return. Those of the last part count.
    pub retcode: i64,
    /// As in a return.
    pub success: bool,
    /// The part of the payload.
    pub part: Part,
}

/// Bytes that are sent in parts. Clones and parts share them.
#[derive(Clone)]
pub struct Outgoing {
    id: TransferId,
    bytes: Bytes,
}

impl Outgoing {
    /// Prepares these bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self {
            id: TransferId::of(&bytes),
            bytes,
        }
    }

    /// Returns the whole.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the part of at most `most` bytes from `offset` on. It is empty at the end of the whole and behind it.
    pub fn part(&self, offset: u64, most: usize) -> Part {
        let length = self.bytes.len();
        let begin = usize::try_from(offset).map_or(length, |at| at.min(length));
        let end = begin.saturating_add(most).min(length);
        Part {
            transfer: self.id,
            total: length as u64,
            offset: begin as u64,
            bytes: self.bytes.slice(begin..end),
        }
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outgoing({:?} of {})", self.id, self.bytes.len())
    }
}

/// The bytes of a transfer that have arrived, from its beginning on.
#[derive(Clone)]
pub struct Incoming {
    id: TransferId,
    total: u64,
    bytes: Vec<u8>,
}

/// A part belongs to another transfer, or its bytes are outside of the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the part does not belong to the transfer")]
pub struct ForeignPart;

impl Incoming {
    /// Begins the transfer that a part belongs to. Nothing of it has arrived: the part is not taken.
    ///
    /// # Errors
    /// When the bytes of the part are outside of the whole.
    pub fn of(part: &Part) -> Result<Self, ForeignPart> {
        part.end().ok_or(ForeignPart)?;
        Ok(Self {
            id: part.transfer,
            total: part.total,
            bytes: Vec::new(),
        })
    }

    /// Takes a part, and returns whether it brought something. One that came before, or that overtook another,
    /// changes nothing.
    ///
    /// # Errors
    /// When the part belongs to another transfer. Nothing has changed.
    pub fn take(&mut self, part: &Part) -> Result<bool, ForeignPart> {
        if !self.is_of(part) || part.end().is_none() {
            return Err(ForeignPart);
        }
        let is_next = part.offset == self.received() && !part.bytes.is_empty();
        if is_next {
            self.bytes.extend_from_slice(&part.bytes);
        }
        Ok(is_next)
    }

    /// Whether a part belongs to this transfer.
    pub fn is_of(&self, part: &Part) -> bool {
        (self.id, self.total) == (part.transfer, part.total)
    }

    /// Returns the length of the whole in bytes.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns how many bytes have arrived.
    pub fn received(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether all bytes have arrived. They may be others than were announced.
    pub fn is_whole(&self) -> bool {
        self.received() == self.total
    }

    /// Returns the whole; none if bytes are missing, or are others than the id of the transfer announced. This
    /// computes their digest.
    pub fn whole(&self) -> Option<&[u8]> {
        (self.is_whole() && TransferId::of(&self.bytes) == self.id).then_some(&self.bytes)
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (received, total) = (self.received(), self.total);
        write!(f, "Incoming({:?} {received} of {total})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn parts_of_another_transfer_are_refused() {
        let (one, other) = (Outgoing::new(whole(100)), Outgoing::new(whole(101)));
        let mut incoming = Incoming::of(&one.part(0, 10)).unwrap();
        assert_eq!(incoming.take(&one.part(0, 10)), Ok(true));
        assert_eq!(incoming.take(&other.part(10, 10)), Err(ForeignPart));
        let same_length = Outgoing::new(vec![1; 100]);
        assert_eq!(incoming.take(&same_length.part(10, 10)), Err(ForeignPart));
        let mut longer = one.part(10, 10);
        longer.total += 1;
        assert_eq!(incoming.take(&longer), Err(ForeignPart));
        for offset in [91, u64::MAX] {
            let mut outside = one.part(10, 10);
            outside.offset = offset;
            assert_eq!(incoming.take(&outside), Err(ForeignPart));
            assert_eq!(Incoming::of(&outside).unwrap_err(), ForeignPart);
        }
        assert_eq!(incoming.received(), 10);
    }

    #[test]
    fn the_whole_is_what_was_announced() {
        let outgoing = Outgoing::new(whole(100));
        let mut incoming = Incoming::of(&outgoing.part(0, 0)).unwrap();
        incoming.take(&outgoing.part(0, 50)).unwrap();
        assert_eq!(incoming.whole(), None, "half of it is there");
        let mut other = incoming.clone();
        incoming.take(&outgoing.part(50, 50)).unwrap();
        assert_eq!(incoming.whole(), Some(outgoing.bytes()));
        let mut changed = outgoing.part(50, 50);
        let mut bytes = changed.bytes.to_vec();
        bytes[49] ^= 1;
        changed.bytes = bytes.into();
        other.take(&changed).unwrap();
        assert!(other.is_whole());
        assert_eq!(other.whole(), None, "a byte is another");
    }

    #[test]
    fn a_part_behind_the_end_is_empty() {
        let outgoing = Outgoing::new(whole(100));
        for offset in [100, 101, u64::MAX] {
            let part = outgoing.part(offset, usize::MAX);
            assert!(part.bytes.is_empty() && part.offset == 100);
        }
    }

    proptest! {
        #[test]
        fn parts_in_any_order_and_repeated_are_put_together(
            length in 0..3_000usize,
            cuts in proptest::collection::vec((0..3_500u64, 0..2_000usize), 0..40),
            size in 1..500usize,
        ) {
            let outgoing = Outgoing::new(whole(length));
            let mut incoming = Incoming::of(&outgoing.part(0, 0)).unwrap();
            for (offset, most) in cuts {
                incoming.take(&outgoing.part(offset, most)).unwrap();
            }
            while !incoming.is_whole() {
                prop_assert_eq!(incoming.take(&outgoing.part(incoming.received(), size)), Ok(true));
            }
            prop_assert_eq!(incoming.whole(), Some(outgoing.bytes()));
        }
    }
}
