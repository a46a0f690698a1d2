//! The decoders that meet the bytes of peers, for the fuzz targets.

use crate::message::{Announcement, Hello, Numbered};
use crate::protocol::Parser;

/// Reads `bytes` as what a server of NATS says, in pieces of `piece` bytes. Returns how many operations came, and how many
/// bytes were held at most.
pub fn operations(bytes: &[u8], piece: usize) -> (usize, usize) {
    let mut parser = Parser::new(crate::LARGEST_MESSAGE);
    let (mut operations, mut held) = (0, 0);
    for piece in bytes.chunks(piece.max(1)) {
        parser.buffer.extend_from_slice(piece);
        loop {
            match parser.next() {
                Ok(Some(_)) => operations += 1,
                Ok(None) => break,
                Err(_) => return (operations, held),
            }
        }
        held = held.max(parser.buffer.len());
    }
    (operations, held)
}

/// Reads `bytes` as a message of a virtual connection, as a greeting and as an announcement. What is read is encoded to the
/// same bytes, but for texts that are cut to what can be shown.
pub fn messages(bytes: &[u8]) {
    if let Ok(message) = Numbered::decode(bytes) {
        let encoded = message.encode();
        assert_eq!(
            Numbered::decode(&encoded).map(|again| again.encode()),
            Ok(encoded)
        );
    }
    if let Some(Hello::Connection(id)) = Hello::decode(bytes) {
        assert_eq!(Hello::encode(id), bytes);
    }
    if let Some(announcement) = Announcement::decode(bytes) {
        assert_eq!(announcement.encode(), bytes);
    }
}
