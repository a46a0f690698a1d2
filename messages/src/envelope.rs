//! The clear header of every message: version, kind, session, class, counter.

use std::fmt;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use super::SessionId;

/// The version of the envelope, which is the first byte of a header. What the sealed messages say has versions of its
/// own: [`ProtocolVersions`](super::ProtocolVersions).
pub const ENVELOPE_VERSION: u8 = 1;

/// The bytes of a header: version, kind, session (16), class, counter (8, big-endian).
pub const HEADER_LEN: usize = 27;

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The first message of a Noise XX handshake.
    First = 1,
    /// The second message of a Noise XX handshake.
    FirstReply = 2,
    /// The third message of a Noise XX handshake; the reply to it is a record.
    FirstFinish = 3,
    /// The first message of a Noise IK handshake.
    Resume = 4,
    /// The second message of a Noise IK handshake.
    ResumeReply = 5,
    /// The master is busy; the delay in milliseconds follows.
    Busy = 7,
    /// A sealed request or reply of a session.
    Record = 8,
    /// A sealed publication.
    Publication = 9,
    /// A refusal in the clear: a [`Refusal`] follows.
    Refused = 10,
}

/// The kind of work that a message asks for. It stands in the clear, covered by the seal, so that it
/// can be read without opening the message; nothing is decided by it, and the master only logs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// A first contact.
    First = 1,
    /// A new session with a master whose keys are known.
    Resume = 2,
    /// A return of a job.
    Return = 3,
    /// Heartbeats, polls and events.
    Event = 4,
    /// Requests that can wait, such as listings.
    Bulk = 5,
    /// Files: parts of them, and what minions ask about them.
    File = 6,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "first contact",
            Self::Resume => "resume",
            Self::Return => "return",
            Self::Event => "event",
            Self::Bulk => "bulk",
            Self::File => "file",
        })
    }
}

/// The reason why a message was refused in the clear. It is not authenticated, so it is a hint: the
/// peer makes a new session, with backoff, and concludes nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// The master does not know the session, or no longer.
    UnknownSession = 1,
    /// The bytes are not a message, or do not open.
    Malformed = 2,
    /// The version of the envelope is not supported.
    Version = 3,
    /// The handshake failed: the keys do not fit.
    Handshake = 4,
    /// The counter was used before, or is too old.
    Replayed = 5,
}

/// The reason why bytes are not an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The message is shorter than a header.
    #[error("a message of {0} bytes is shorter than a header")]
    TooShort(usize),
    /// The version of the envelope is not supported.
    #[error("envelope version {0} is not supported; this side speaks {ENVELOPE_VERSION}")]
    Version(u8),
    /// The kind is unknown.
    #[error("unknown message kind {0}")]
    Kind(u8),
    /// The class is unknown.
    #[error("unknown message class {0}")]
    Class(u8),
}

impl TryFrom<u8> for Kind {
    type Error = EnvelopeError;
    fn try_from(byte: u8) -> Result<Self, EnvelopeError> {
        Ok(match byte {
            1 => Self::First,
            2 => Self::FirstReply,
            3 => Self::FirstFinish,
            4 => Self::Resume,
            5 => Self::ResumeReply,
            7 => Self::Busy,
            8 => Self::Record,
            9 => Self::Publication,
            10 => Self::Refused,
            other => return Err(EnvelopeError::Kind(other)),
        })
    }
}

impl TryFrom<u8> for Class {
    type Error = EnvelopeError;
    fn try_from(byte: u8) -> Result<Self, EnvelopeError> {
        Ok(match byte {
            1 => Self::First,
            2 => Self::Resume,
            3 => Self::Return,
            4 => Self::Event,
            5 => Self::Bulk,
            6 => Self::File,
            other => return Err(EnvelopeError::Class(other)),
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownSession => "it does not know the session",
            Self::Malformed => "it cannot read it",
            Self::Version => "it is of another version of the protocol, so upgrade the older side",
            Self::Handshake => "its keys do not fit",
            Self::Replayed => "it has come before",
        })
    }
}

impl Refusal {
    /// Reads the body of a [`Kind::Refused`]; an unknown reason is `Malformed`.
    pub fn from_body(body: &[u8]) -> Self {
        match body.first() {
            Some(1) => Self::UnknownSession,
            Some(3) => Self::Version,
            Some(4) => Self::Handshake,
            Some(5) => Self::Replayed,
            _ => Self::Malformed,
        }
    }
}

/// The header of a message. It is associated data of the sealed body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The kind of the message.
    pub kind: Kind,
    /// The session; zero before there is one.
    pub session: SessionId,
    /// The kind of work.
    pub class: Class,
    /// The record's number, which is its nonce. A reply has the number of its request.
    pub counter: u64,
}

impl Header {
    /// Creates a header of a message outside any session.
    pub fn bare(kind: Kind, class: Class) -> Self {
        Self {
            kind,
            session: SessionId::default(),
            class,
            counter: 0,
        }
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = ENVELOPE_VERSION;
        bytes[1] = self.kind as u8;
        bytes[2..18].copy_from_slice(&self.session.0);
        bytes[18] = self.class as u8;
        bytes[19..].copy_from_slice(&self.counter.to_be_bytes());
        bytes
    }

    /// Splits a message into its header and its body.
    ///
    /// # Errors
    /// When the bytes are too few, or the version, kind or class is not known.
    pub fn decode(message: &[u8]) -> Result<(Self, &[u8]), EnvelopeError> {
        let Some((header, body)) = message.split_first_chunk::<HEADER_LEN>() else {
            return Err(EnvelopeError::TooShort(message.len()));
        };
        if header[0] != ENVELOPE_VERSION {
            return Err(EnvelopeError::Version(header[0]));
        }
        let mut session = SessionId::default();
        session.0.copy_from_slice(&header[2..18]);
        let mut counter = [0; 8];
        counter.copy_from_slice(&header[19..]);
        Ok((
            Self {
                kind: Kind::try_from(header[1])?,
                session,
                class: Class::try_from(header[18])?,
                counter: u64::from_be_bytes(counter),
            },
            body,
        ))
    }

    /// Returns the whole message: this header and `body`.
    pub fn with_body(&self, body: &[u8]) -> Bytes {
        let mut message = BytesMut::with_capacity(HEADER_LEN + body.len());
        message.put_slice(&self.encode());
        message.put_slice(body);
        message.freeze()
    }

    /// Returns the nonce of AES-256-GCM-SIV: four zero bytes and the counter, as Noise defines it for AES-GCM.
    pub fn nonce(&self) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.counter.to_be_bytes());
        nonce
    }
}

/// Returns a [`Kind::Refused`] for the session of `about`.
pub fn refusal(about: Option<&Header>, refusal: Refusal) -> Bytes {
    let mut header = about
        .copied()
        .unwrap_or_else(|| Header::bare(Kind::Refused, Class::Event));
    header.kind = Kind::Refused;
    header.with_body(&[refusal as u8])
}

/// Returns a [`Kind::Busy`]: the peer should come again after this time.
pub fn busy(about: &Header, after: Duration) -> Bytes {
    let mut header = *about;
    header.kind = Kind::Busy;
    header.with_body(&after_ms(after).to_be_bytes())
}

/// Returns a delay as messages have it: in milliseconds, at most 49 days.
pub(super) fn after_ms(delay: Duration) -> u32 {
    u32::try_from(delay.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_bytes() {
        let header = Header {
            kind: Kind::Record,
            session: SessionId([0xab; 16]),
            class: Class::Return,
            counter: 0x0102,
        };
        let mut expected = vec![1, 8];
        expected.extend([0xab; 16]);
        expected.extend([3, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(header.encode().to_vec(), expected);
        assert_eq!(header.nonce(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_cleanly(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok((header, body)) = Header::decode(&bytes) {
                prop_assert_eq!(header.with_body(body).to_vec(), bytes);
            }
        }
    }
}
