//! The datagrams, and the tag at the end of each.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use super::cookie::{COOKIE, Cookie};

/// The version of these datagrams.
pub(super) const VERSION: u8 = 1;

/// What every datagram begins with: its kind and its connection.
const HEADER: usize = 1 + 8 + 8;

/// What every datagram ends with.
const TAG: usize = 8;

/// The length in bytes of a datagram that carries no byte of data.
pub(super) const DATA_OVERHEAD: usize = HEADER + 8 + 8 + TAG;

/// The size of a greeting, which is padded so that no answer to it is larger.
const HELLO_SIZE: usize = 64;

/// The most bytes that name segments which came early.
pub(super) const MOST_EARLY: usize = 32;

/// Names a connection between two addresses: a number that its client chose, and one of its server; zero until that has
/// welcomed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ConnectionId {
    pub(super) client: u64,
    pub(super) server: u64,
}

/// What a datagram says. The first three open a connection, and stay as they are in every version, as do the header and the tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Datagram<'d> {
    /// A client asks for a connection, at first with a cookie of zeros.
    Hello { version: u8, cookie: Cookie },
    /// The server's answer to a cookie that proves nothing.
    Retry { version: u8, cookie: Cookie },
    /// The connection is open.
    Welcome,
    /// A segment, which is never empty. Each time it is sent it is another packet.
    Data {
        packet: u64,
        segment: u64,
        bytes: &'d [u8],
    },
    /// The segment after the last one.
    End { packet: u64, segment: u64 },
    /// What has arrived.
    Ack(Ack),
    /// Asks for an [`Ack`](Self::Ack).
    Probe,
    /// The connection is over, or is none. Never answered.
    Cut,
}

/// An acknowledgement: the segments that the sender of it has received.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Ack {
    /// The first segment that has not arrived.
    pub(super) next: u64,
    /// How many bytes the peer may have sent, from the first one on.
    pub(super) allowed: u64,
    /// The number after the highest packet that has arrived.
    pub(super) packets: u64,
    /// A bit for each segment after `next` that has arrived.
    pub(super) early: Vec<u8>,
}

const HELLO: u8 = b'H';
const RETRY: u8 = b'R';
const WELCOME: u8 = b'W';
const DATA: u8 = b'D';
const END: u8 = b'E';
const ACK: u8 = b'A';
const PROBE: u8 = b'P';
const CUT: u8 = b'X';

/// Reads a datagram. None when its tag or its form is wrong.
pub(super) fn decode(bytes: &[u8]) -> Option<(ConnectionId, Datagram<'_>)> {
    let (body, tag) = bytes.split_last_chunk::<TAG>()?;
    let (kind, rest) = body.split_first()?;
    let (client, rest) = number(rest)?;
    let (server, rest) = number(rest)?;
    let id = ConnectionId { client, server };
    if tag_of(id, body) != *tag {
        return None;
    }
    let datagram = match *kind {
        HELLO if bytes.len() >= HELLO_SIZE => {
            let (version, cookie) = opening(rest)?;
            Datagram::Hello { version, cookie }
        }
        RETRY => {
            let (version, cookie) = opening(rest)?;
            Datagram::Retry { version, cookie }
        }
        WELCOME => Datagram::Welcome,
        DATA => {
            let (packet, rest) = number(rest)?;
            let (segment, bytes) = number(rest)?;
            if bytes.is_empty() {
                return None;
            }
            Datagram::Data {
                packet,
                segment,
                bytes,
            }
        }
        END => {
            let (packet, rest) = number(rest)?;
            let (segment, _) = number(rest)?;
            Datagram::End { packet, segment }
        }
        ACK => {
            let (next, rest) = number(rest)?;
            let (allowed, rest) = number(rest)?;
            let (packets, early) = number(rest)?;
            let early = early.get(..MOST_EARLY).unwrap_or(early).to_vec();
            Datagram::Ack(Ack {
                next,
                allowed,
                packets,
                early,
            })
        }
        PROBE => Datagram::Probe,
        CUT => Datagram::Cut,
        _ => return None,
    };
    Some((id, datagram))
}

/// Returns a datagram as it travels.
pub(super) fn encode(id: ConnectionId, datagram: &Datagram<'_>) -> Vec<u8> {
    let (kind, size) = match datagram {
        Datagram::Hello { .. } => (HELLO, HELLO_SIZE),
        Datagram::Retry { .. } => (RETRY, HELLO_SIZE),
        Datagram::Welcome => (WELCOME, HEADER + TAG),
        Datagram::Data { bytes, .. } => (DATA, DATA_OVERHEAD + bytes.len()),
        Datagram::End { .. } => (END, DATA_OVERHEAD),
        Datagram::Ack(ack) => (ACK, HEADER + 3 * 8 + ack.early.len() + TAG),
        Datagram::Probe => (PROBE, HEADER + TAG),
        Datagram::Cut => (CUT, HEADER + TAG),
    };
    let mut body = Vec::with_capacity(size);
    body.push(kind);
    body.extend(id.client.to_be_bytes());
    body.extend(id.server.to_be_bytes());
    match datagram {
        Datagram::Hello { version, cookie } => {
            body.push(*version);
            body.extend(cookie);
            body.resize(HELLO_SIZE - TAG, 0);
        }
        Datagram::Retry { version, cookie } => {
            body.push(*version);
            body.extend(cookie);
        }
        Datagram::Data {
            packet,
            segment,
            bytes,
        } => {
            body.extend(packet.to_be_bytes());
            body.extend(segment.to_be_bytes());
            body.extend_from_slice(bytes);
        }
        Datagram::End { packet, segment } => {
            body.extend(packet.to_be_bytes());
            body.extend(segment.to_be_bytes());
        }
        Datagram::Ack(ack) => {
            body.extend(ack.next.to_be_bytes());
            body.extend(ack.allowed.to_be_bytes());
            body.extend(ack.packets.to_be_bytes());
            body.extend_from_slice(&ack.early);
        }
        Datagram::Welcome | Datagram::Probe | Datagram::Cut => {}
    }
    let tag = tag_of(id, &body);
    body.extend(tag);
    body
}

/// UDP's own sum of 16 bits is optional, and lets one error in 65,536 pass.
pub(super) fn tag_of(id: ConnectionId, body: &[u8]) -> [u8; TAG] {
    let mut hasher = SipHasher24::new_with_keys(id.client, id.server);
    hasher.write(body);
    hasher.finish().to_be_bytes()
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

fn opening(bytes: &[u8]) -> Option<(u8, Cookie)> {
    let (version, rest) = bytes.split_first()?;
    let (cookie, _) = rest.split_first_chunk::<COOKIE>()?;
    Some((*version, *cookie))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn datagram() -> impl Strategy<Value = Datagram<'static>> {
        let cookie = any::<(u8, Cookie)>();
        let ack = (
            any::<(u64, u64, u64)>(),
            prop::collection::vec(any::<u8>(), 0..=MOST_EARLY),
        );
        prop_oneof![
            cookie.prop_map(|(version, cookie)| Datagram::Hello { version, cookie }),
            any::<(u8, Cookie)>().prop_map(|(version, cookie)| Datagram::Retry { version, cookie }),
            any::<(u64, u64)>().prop_map(|(packet, segment)| Datagram::Data {
                packet,
                segment,
                bytes: b"bytes",
            }),
            any::<(u64, u64)>().prop_map(|(packet, segment)| Datagram::End { packet, segment }),
            ack.prop_map(|((next, allowed, packets), early)| Datagram::Ack(Ack {
                next,
                allowed,
                packets,
                early,
            })),
            Just(Datagram::Welcome),
            Just(Datagram::Probe),
            Just(Datagram::Cut),
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_and_what_is_changed_is_dropped(
            (client, server) in any::<(u64, u64)>(),
            datagram in datagram(),
            (at, bit) in (any::<prop::sample::Index>(), 0..8),
        ) {
            let id = ConnectionId { client, server };
            let mut bytes = encode(id, &datagram);
            prop_assert_eq!(decode(&bytes), Some((id, datagram)));
            let at = at.index(bytes.len());
            prop_assert_eq!(decode(&bytes[..at]), None);
            bytes[at] ^= 1u8 << bit;
            prop_assert_eq!(decode(&bytes), None);
        }

        #[test]
        fn any_bytes_are_dropped(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(decode(&bytes), None);
        }
    }

    #[test]
    fn no_answer_to_a_greeting_is_larger() {
        let (id, cookie, version) = (ConnectionId::default(), [0; COOKIE], VERSION);
        let hello = encode(id, &Datagram::Hello { version, cookie }).len();
        for answer in [
            Datagram::Retry { version, cookie },
            Datagram::Welcome,
            Datagram::Cut,
        ] {
            assert!(encode(id, &answer).len() <= hello);
        }
        // Nor to whatever belongs to no connection.
        let smallest = encode(id, &Datagram::Probe).len();
        assert!(encode(id, &Datagram::Cut).len() <= smallest);
    }
}
