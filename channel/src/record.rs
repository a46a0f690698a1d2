//! Seals the messages of a session: AES-256-GCM-SIV (RFC 8452) with explicit counters.
//!
//! A counter is used once in a session. In two copies of one memory, as of a virtual machine that was saved
//! once and continued twice, it is used twice: then the sealed bytes show whether two messages are equal, and
//! nothing else. AES-256-GCM would give away their contents, and the key that authenticates.
//!
//! A reply has the counter of its request under the key of the other direction, so that it fits no other request. A
//! nonce is used once because a request is opened once (the replay window is always on) and answered once.
//!
//! Messages up to 16 KiB cost the same as with AES-256-GCM, and sealing 1 MiB a third more (0.41 ms instead of
//! 0.31). The handshakes stay AES-GCM, as Noise defines them; `docs/security.md` says what copies of a machine mean
//! there.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

pub use crate::cipher::OVERHEAD;

use super::cipher::SealKey;
use super::noise::SplitKeys;
use super::publication::PublicationRoot;
use super::{ChannelError, replay::ReplayWindow};
use saline_messages::Header;

/// The keys of a session at the initiator's side.
pub struct InitiatorRecords {
    seal: SealKey,
    open: SealKey,
    /// Derives the keys of the session's own publications.
    pub publications: Arc<PublicationRoot>,
}

/// The keys of a session at the master's side, and the requests that it has seen.
pub struct ResponderRecords {
    seal: SealKey,
    open: SealKey,
    window: ReplayWindow,
    /// Derives the keys of the session's own publications.
    pub publications: Arc<PublicationRoot>,
}

impl InitiatorRecords {
    /// Uses the keys of a handshake.
    pub fn new(keys: &SplitKeys) -> Self {
        Self {
            seal: SealKey::new(&keys.initiator),
            open: SealKey::new(&keys.responder),
            publications: Arc::new(PublicationRoot::new(&keys.responder)),
        }
    }

    /// Seals a request. The header's counter must never have been used in this session.
    pub fn seal_request(&self, header: &Header, plain: impl Into<Vec<u8>>) -> Bytes {
        self.seal.seal(header, &[], &[], plain)
    }

    /// Opens the reply to the request with this header. It has the same counter, so that a reply
    /// cannot be given to another request.
    ///
    /// # Errors
    /// When the reply does not open.
    pub fn open_reply(
        &self,
        header: &Header,
        sealed: impl Into<BytesMut>,
    ) -> Result<BytesMut, ChannelError> {
        self.open.open(header, &[], &[], sealed)
    }
}

impl ResponderRecords {
    /// Uses the keys of a handshake.
    pub fn new(keys: &SplitKeys) -> Self {
        Self {
            seal: SealKey::new(&keys.responder),
            open: SealKey::new(&keys.initiator),
            window: ReplayWindow::default(),
            publications: Arc::new(PublicationRoot::new(&keys.responder)),
        }
    }

    /// Opens a request, which works once.
    ///
    /// # Errors
    /// `Forged` when the request does not open, `Replayed` when it was opened before or is too old
    /// to tell.
    pub fn open_request(
        &mut self,
        header: &Header,
        sealed: impl Into<BytesMut>,
    ) -> Result<BytesMut, ChannelError> {
        let plain = self.open.open(header, &[], &[], sealed)?;
        if self.window.accept(header.counter) {
            Ok(plain)
        } else {
            Err(ChannelError::Replayed)
        }
    }

    /// Seals the reply to the request with this header. Each request is opened once and answered
    /// once, so the counter is used once in this direction too.
    pub fn seal_reply(&self, header: &Header, plain: impl Into<Vec<u8>>) -> Bytes {
        self.seal.seal(header, &[], &[], plain)
    }
}

impl fmt::Debug for InitiatorRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InitiatorRecords")
    }
}

impl fmt::Debug for ResponderRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponderRecords")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_messages::{Class, HEADER_LEN, Kind, SessionId};

    fn pair() -> (InitiatorRecords, ResponderRecords) {
        let keys = SplitKeys {
            initiator: [1; 32],
            responder: [2; 32],
        };
        (InitiatorRecords::new(&keys), ResponderRecords::new(&keys))
    }

    fn header(counter: u64) -> Header {
        Header {
            kind: Kind::Record,
            session: SessionId([9; 16]),
            class: Class::Event,
            counter,
        }
    }

    #[test]
    fn a_request_opens_once_and_its_reply_fits_no_other() {
        let (minion, mut master) = pair();
        let message = minion.seal_request(&header(5), b"ping");
        assert_eq!(message.len(), OVERHEAD + 4);
        let (got, body) = Header::decode(&message).unwrap();
        assert_eq!(master.open_request(&got, body).unwrap(), &b"ping"[..]);
        assert!(matches!(
            master.open_request(&got, body),
            Err(ChannelError::Replayed)
        ));

        let reply = master.seal_reply(&got, b"pong");
        let (answered, body) = Header::decode(&reply).unwrap();
        assert_eq!(minion.open_reply(&answered, body).unwrap(), &b"pong"[..]);
        assert!(minion.open_reply(&header(6), body).is_err());
    }

    #[test]
    fn no_request_has_the_counter_that_answered_the_handshake() {
        // Its reply would be sealed under a nonce that was used.
        let (minion, mut master) = pair();
        let message = minion.seal_request(&header(0), b"ping");
        let (header, body) = Header::decode(&message).unwrap();
        assert!(matches!(
            master.open_request(&header, body),
            Err(ChannelError::Replayed)
        ));
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let (minion, mut master) = pair();
        let message = minion.seal_request(&header(1), b"ping");
        for index in 0..message.len() {
            let mut changed = message.to_vec();
            changed[index] ^= 1;
            if let Ok((header, body)) = Header::decode(&changed) {
                assert!(master.open_request(&header, body).is_err(), "byte {index}");
            }
        }
        let (header, body) = Header::decode(&message).unwrap();
        assert!(
            master.open_request(&header, body).is_ok(),
            "forgeries moved nothing"
        );
    }

    /// Returns the bytes of `one` and `other` combined by exclusive or.
    fn difference(one: &[u8], other: &[u8]) -> Vec<u8> {
        one.iter().zip(other).map(|(a, b)| a ^ b).collect()
    }

    #[test]
    fn two_copies_of_a_session_give_nothing_away_but_whether_messages_are_equal() {
        // As of a machine whose memory was saved once and continued twice.
        let (one, other) = (pair(), pair());
        let plain: [&[u8]; 2] = [b"the password is hunter2!", b"nothing has happened yet"];
        let requests = [
            one.0.seal_request(&header(7), plain[0]),
            other.0.seal_request(&header(7), plain[1]),
        ];
        let replies = [
            one.1.seal_reply(&header(7), plain[0]),
            other.1.seal_reply(&header(7), plain[1]),
        ];
        let publications = [0, 1].map(|copy| {
            let key = SealKey::new(&[3; 32]);
            key.seal(&header(7), &[0; 16], b"job/all", plain[copy])
        });
        for (sealed, clear) in [(requests, 0), (replies, 0), (publications, 16)] {
            let body = |copy: usize| &sealed[copy][HEADER_LEN + clear..][..plain[0].len()];
            let leaked = difference(body(0), body(1));
            // With a key stream that is used twice all of these are equal.
            let equal = leaked
                .iter()
                .zip(difference(plain[0], plain[1]))
                .filter(|(a, b)| **a == *b);
            assert!(equal.count() < 6, "the contents show");
        }
        assert_eq!(
            one.0.seal_request(&header(8), b"ping"),
            other.0.seal_request(&header(8), b"ping"),
            "equal messages show that they are"
        );
    }

    #[test]
    fn a_request_does_not_open_as_a_reply() {
        let (minion, _) = pair();
        let message = minion.seal_request(&header(1), b"ping");
        let (header, body) = Header::decode(&message).unwrap();
        assert!(minion.open_reply(&header, body).is_err());
    }
}
