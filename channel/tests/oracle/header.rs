//! The clear header of every message: 27 bytes.
//!
//! | bytes | hold |
//! |---|---|
//! | 0 | 1, the version of the envelope |
//! | 1 | the kind |
//! | 2 to 17 | the session; zeros before there is one |
//! | 18 | the class |
//! | 19 to 26 | the counter, big-endian |

/// The length of a header.
const LENGTH: usize = 27;

/// The kinds of messages that the oracle writes and reads.
pub mod kind {
    pub const FIRST: u8 = 1;
    pub const FIRST_REPLY: u8 = 2;
    pub const FIRST_FINISH: u8 = 3;
    pub const RESUME: u8 = 4;
    pub const RESUME_REPLY: u8 = 5;
    pub const RECORD: u8 = 8;
    pub const PUBLICATION: u8 = 9;
}

/// The classes of messages that the oracle writes and reads.
pub mod class {
    pub const RETURN: u8 = 3;
    pub const EVENT: u8 = 4;
}

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// One of [`kind`].
    pub kind: u8,
    /// The session.
    pub session: [u8; 16],
    /// The kind of work, as one of [`class`].
    pub class: u8,
    /// The number of a record; a reply has that of its request.
    pub counter: u64,
}

impl Header {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0] = 1;
        bytes[1] = self.kind;
        bytes[2..18].copy_from_slice(&self.session);
        bytes[18] = self.class;
        bytes[19..].copy_from_slice(&self.counter.to_be_bytes());
        bytes
    }

    /// Splits a message into its header and its body.
    pub fn decode(message: &[u8]) -> (Self, &[u8]) {
        let (header, body) = message.split_at(LENGTH);
        assert_eq!(header[0], 1, "the version of an envelope");
        let header = Self {
            kind: header[1],
            session: header[2..18].try_into().unwrap(),
            class: header[18],
            counter: u64::from_be_bytes(header[19..].try_into().unwrap()),
        };
        (header, body)
    }

    /// Returns the message of this header and `body`.
    pub fn with_body(&self, body: &[u8]) -> Vec<u8> {
        [&self.encode(), body].concat()
    }
}
