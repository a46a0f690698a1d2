//! Large returns travel in parts, so that other messages pass between them, and a connection that is lost
//! costs one part.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::Jid;

/// The size in bytes above which a return travels in parts: payload, arguments and name of the function.
pub const PARTS_FROM: usize = 256 * 1024;

/// Identifies what is transferred: the first half of the SHA-256 of all of its bytes. So a transfer goes
/// on after a new session, and after a restart of the minion.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TransferId(pub [u8; 16]);

impl TransferId {
    /// Returns the id of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&digest(&SHA256, bytes).as_ref()[..16]);
        Self(id)
    }
}

impl fmt::Debug for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A part of an encoded [`Return`](super::Return).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnPart {
    /// The job that returned.
    pub jid: Jid,
    /// The transfer that the part belongs to.
    pub transfer: TransferId,
    /// The length of the encoded return in bytes.
    pub total: u64,
    /// The place of `bytes` in the encoded return.
    pub offset: u64,
    /// The bytes from `offset` on; empty to ask how much the master has.
    #[serde(with = "as_bytes")]
    pub bytes: Vec<u8>,
}

impl fmt::Debug for ReturnPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.offset.saturating_add(self.bytes.len() as u64);
        write!(
            f,
            "ReturnPart({} {:?} {}..{end} of {})",
            self.jid, self.transfer, self.offset, self.total
        )
    }
}

/// Bytes as one value, and not as a sequence of numbers.
mod as_bytes {
    use std::fmt;

    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the bytes of a part")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}
