//! The identities that a master has had: each signed the one that took its place, so that a peer which trusts any of them
//! follows to the one that the master has now.
//!
//! An owner of an identity's private key can sign a successor of it at any time: a record says that the two belong together,
//! and neither when it was signed nor that the first one is no longer in use. A peer that has followed to a successor
//! therefore never goes back.

use std::path::Path;

use super::{Identity, KeyError, PublicIdentity, key_file, pem};

/// The largest number of successors that are kept, sent and read.
pub const MAX_SUCCESSORS: usize = 8;

/// The label of the PEM block in the file.
const LABEL: &str = "SALINE MASTER SUCCESSORS";

/// The length of a record: two public keys and a signature.
const RECORD: usize = 32 + 32 + SIGNATURE;

const SIGNATURE: usize = 64;

/// A record that an identity replaces its predecessor, signed by the predecessor.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Successor {
    predecessor: PublicIdentity,
    identity: PublicIdentity,
    signature: [u8; SIGNATURE],
}

fn signed_bytes(predecessor: PublicIdentity, identity: PublicIdentity) -> Vec<u8> {
    [
        b"saline/1 successor of a master",
        &predecessor.0[..],
        &identity.0,
    ]
    .concat()
}

impl Successor {
    fn sign(predecessor: &Identity, identity: PublicIdentity) -> Self {
        let signature = predecessor.sign(&signed_bytes(predecessor.public(), identity));
        Self {
            predecessor: predecessor.public(),
            identity,
            signature: signature
                .try_into()
                .expect("an Ed25519 signature has 64 bytes"),
        }
    }

    /// Whether the predecessor has signed the record.
    fn is_signed(&self) -> bool {
        let bytes = signed_bytes(self.predecessor, self.identity);
        self.predecessor.verifies(&bytes, &self.signature)
    }

    fn from_bytes(bytes: &[u8; RECORD]) -> Self {
        let (predecessor, rest) = bytes.split_first_chunk().expect("a record is longer");
        let (identity, signature) = rest.split_first_chunk().expect("a record is longer");
        Self {
            predecessor: PublicIdentity(*predecessor),
            identity: PublicIdentity(*identity),
            signature: signature.try_into().expect("the rest is a signature"),
        }
    }
}

/// The successors of a master's identities, from the oldest on. Signatures are checked when records are asked for by the
/// identity to which they lead, and not when they are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Successors(Vec<Successor>);

impl Successors {
    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the identities, from the oldest on, from which signed records lead to `identity` without a gap.
    pub fn predecessors_of(&self, identity: PublicIdentity) -> Vec<PublicIdentity> {
        let leading = self.leading_to(identity).iter();
        leading.map(|record| record.predecessor).collect()
    }

    /// Returns the records that lead to `identity`.
    fn leading_to(&self, identity: PublicIdentity) -> &[Successor] {
        let is_last = |record: &Successor| record.identity == identity;
        let end = self.0.iter().rposition(is_last).map_or(0, |at| at + 1);
        let mut wanted = identity;
        let mut begin = end;
        while let Some(record) = begin.checked_sub(1).map(|before| &self.0[before]) {
            if record.identity != wanted || !record.is_signed() {
                break;
            }
            wanted = record.predecessor;
            begin -= 1;
        }
        &self.0[begin..end]
    }

    /// Returns the records that lead to `identity`, and no others.
    #[must_use]
    pub fn only_to(&self, identity: PublicIdentity) -> Self {
        Self(self.leading_to(identity).to_vec())
    }

    /// Returns the records that lead to `identity`, and a new one, by which `identity` signs that `next` replaces it. The
    /// oldest records are left out when there are more than [`MAX_SUCCESSORS`].
    #[must_use]
    pub fn with(&self, identity: &Identity, next: PublicIdentity) -> Self {
        let Self(mut records) = self.only_to(identity.public());
        records.push(Successor::sign(identity, next));
        let excess = records.len().saturating_sub(MAX_SUCCESSORS);
        Self(records.split_off(excess))
    }

    /// Encodes the records for a handshake or a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let records = self.0.iter();
        records
            .flat_map(|record| {
                [
                    &record.predecessor.0[..],
                    &record.identity.0,
                    &record.signature,
                ]
            })
            .flatten()
            .copied()
            .collect()
    }

    /// Decodes records. Returns `None` if the bytes are not whole records, or more than [`MAX_SUCCESSORS`] of them.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (records, rest) = bytes.as_chunks::<RECORD>();
        let are_whole = rest.is_empty() && records.len() <= MAX_SUCCESSORS;
        are_whole.then(|| Self(records.iter().map(Successor::from_bytes).collect()))
    }

    /// Reads the records in the file `path`; there are none if there is no such file.
    ///
    /// # Errors
    /// When the file cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let Some(text) = key_file::read(path)? else {
            return Ok(Self::default());
        };
        let bytes = pem::decode_block(LABEL, &text);
        let read = bytes.and_then(|bytes| Self::from_bytes(&bytes));
        read.ok_or_else(|| KeyError::NotAKey {
            what: "the successors of a master's identity; put it back from a copy, or remove it: then minions that were \
                   away since the identity was rotated refuse the master",
            path: path.to_owned(),
        })
    }

    /// Writes the records to the file `path` (0644).
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        key_file::write(path, &pem::encode_block(LABEL, &self.to_bytes()), 0o644)
    }
}

#[cfg(test)]
mod tests;
