//! The form of everything that a minion and a job process share: a mark, the version, and the message. Behind that of a job's
//! return stands what was returned.

use std::io::{self, Read};

use saline_messages::{decode_front, encode_behind};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The first bytes of each.
const MARK: &[u8; 6] = b"SALJOB";

/// The version of all messages. A process that was started before an upgrade of the minion is met by the minion of after it.
const VERSION: u8 = 1;

/// The reason why bytes are not understood.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The bytes cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The bytes are of another version.
    #[error("it is of version {0}, and this program knows version {VERSION}")]
    Version(u8),
    /// The bytes are no such message.
    #[error("it is damaged")]
    Damaged,
}

impl FormatError {
    /// Whether the other end of a stream is closed, before it has said anything or in the midst of it.
    pub(super) fn is_of_closed_stream(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset};
        match self {
            Self::Read(error) => {
                matches!(
                    error.kind(),
                    BrokenPipe | ConnectionRefused | ConnectionReset
                )
            }
            Self::Version(_) => false,
            Self::Damaged => true,
        }
    }
}

/// Encodes a message.
pub(super) fn encode(message: &impl Serialize) -> Vec<u8> {
    encode_behind([MARK.as_slice(), &[VERSION]].concat(), message)
}

/// Decodes a message.
///
/// # Errors
/// When the bytes are of another version, or no such message.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FormatError> {
    match split(bytes)? {
        (message, []) => Ok(message),
        _ => Err(FormatError::Damaged),
    }
}

/// Decodes the message that bytes begin with, and returns it with what is behind it.
///
/// # Errors
/// When the bytes are of another version, or do not begin with such a message.
pub(super) fn split<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), FormatError> {
    let rest = bytes.strip_prefix(MARK).ok_or(FormatError::Damaged)?;
    match rest.split_first() {
        Some((&VERSION, body)) => decode_front(body).map_err(|_| FormatError::Damaged),
        Some((&other, _)) => Err(FormatError::Version(other)),
        None => Err(FormatError::Damaged),
    }
}

/// Reads and decodes the rest of a stream of at most `most` bytes.
///
/// # Errors
/// As [`decode`], and when it cannot be read or has more bytes.
pub(super) fn read<T: DeserializeOwned>(from: impl Read, most: u64) -> Result<T, FormatError> {
    decode(&read_bytes(from, 0, most)?)
}

/// Reads the rest of a stream, of which about `expected` bytes are there, and at most `most` may be.
///
/// # Errors
/// When it cannot be read or has more bytes.
pub(super) fn read_bytes(
    from: impl Read,
    expected: u64,
    most: u64,
) -> Result<Vec<u8>, FormatError> {
    let room = usize::try_from(expected.min(most)).unwrap_or_default();
    let mut bytes = Vec::with_capacity(room);
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(FormatError::Damaged),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn another_version_is_told_and_not_read() {
        let bytes = encode(&"text");
        assert_eq!(decode::<String>(&bytes).unwrap(), "text");
        let mut other = bytes.clone();
        other[MARK.len()] = 9;
        let error = decode::<String>(&other).unwrap_err();
        assert!(matches!(error, FormatError::Version(9)));
        assert_eq!(
            error.to_string(),
            "it is of version 9, and this program knows version 1"
        );
        for cut in 0..bytes.len() {
            let error = decode::<String>(&bytes[..cut]).unwrap_err();
            assert!(matches!(error, FormatError::Damaged), "{cut}");
        }
        assert!(read::<String>(&*bytes, bytes.len() as u64).is_ok());
        assert!(read::<String>(&*bytes, bytes.len() as u64 - 1).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes: Vec<u8> = MARK.iter().copied().chain([VERSION]).chain(bytes).collect();
            let _ = decode::<crate::job_process::JobRecord>(&bytes);
            let _ = decode::<crate::job_process::Call>(&bytes);
            let _ = crate::job_process::JobResult::decode(bytes);
        }
    }
}
