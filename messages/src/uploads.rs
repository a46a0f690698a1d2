//! Uploads: files that an operator hands to the master, and that the minions of one job fetch from there.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::OrderWarning;
use super::random::{self, NoRandomness};
use super::transfer::Part;

/// The name of the environment under which minions fetch the files of uploads. No `file_roots` has it.
pub const UPLOADS_ENVIRONMENT: &str = "__uploads__";

/// The most files of one upload.
pub const MAX_UPLOADED_FILES: u32 = 1_000;

/// Identifies an upload. Whoever knows it may fetch its files, so it is told to the minions of the job alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UploadId([u8; 16]);

impl UploadId {
    /// Returns an id that nobody can guess.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn random() -> Result<Self, NoRandomness> {
        random::bytes().map(Self)
    }

    /// Reads the text of [`to_text`](Self::to_text).
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 32 || !text.bytes().all(is_hex) {
            return None;
        }
        u128::from_str_radix(text, 16)
            .ok()
            .map(|number| Self(number.to_be_bytes()))
    }

    /// Returns the id as 32 hexadecimal digits.
    pub fn to_text(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It is a secret.
        f.write_str("UploadId")
    }
}

/// A request of an operator about an upload of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UploadRequest {
    /// Begins an upload, for which the master keeps room. Repeated, it changes nothing.
    Begin {
        /// The id of the upload.
        upload: UploadId,
        /// The number of files, at most [`MAX_UPLOADED_FILES`].
        files: u32,
        /// The bytes of all files.
        bytes: u64,
    },
    /// Hands in a part of a file.
    Part {
        /// The id of the upload.
        upload: UploadId,
        /// The number of the file, from 0 on.
        number: u32,
        /// The part.
        part: Part,
    },
    /// Removes all files of an upload.
    End {
        /// The id of the upload.
        upload: UploadId,
    },
}

/// The reply to an [`UploadRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UploadReply {
    /// The reply to `Begin`, with what the operator is warned of.
    Begun(Vec<OrderWarning>),
    /// The reply to `Part`: the master has this many bytes of the file, from its beginning.
    Received(u64),
    /// The reply to `End`.
    Ended,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        for bytes in [[0; 16], [0xab; 16], *b"0123456789abcdef"] {
            let id = UploadId(bytes);
            assert_eq!(UploadId::parse(&id.to_text()), Some(id));
        }
        let long = "0".repeat(33);
        let signed = format!("+{}", "0".repeat(31));
        for wrong in [
            "",
            "0",
            "..",
            &long,
            &signed,
            &"G".repeat(32),
            &"A".repeat(32),
        ] {
            assert_eq!(UploadId::parse(wrong), None, "{wrong}");
        }
    }
}
