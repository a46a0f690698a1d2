//! Records: the sealed requests of a session, and their replies.

use std::collections::HashSet;

use saline_channel::record::{InitiatorRecords, ResponderRecords};
use saline_channel::replay::WINDOW;
use saline_messages::{Class, Header, Kind, SessionId};

use crate::peers::session_keys;

/// The most steps of one input.
const STEPS: usize = 64;

/// The bytes are a schedule of what arrives at the master: each step is nine bytes, of which the first says
/// what it does, and the others are a counter.
pub(crate) fn records(bytes: &[u8]) {
    let keys = session_keys();
    let (minion, mut master) = (InitiatorRecords::new(&keys), ResponderRecords::new(&keys));
    // What strangers send as it is never opens.
    if let Ok((header, body)) = Header::decode(bytes) {
        assert!(master.open_request(&header, body).is_err());
        assert!(minion.open_reply(&header, body).is_err());
    }
    let mut opened = HashSet::new();
    let mut highest: Option<u64> = None;
    for step in bytes.chunks_exact(9).take(STEPS) {
        let (action, counter) = (step[0], &step[1..]);
        let counter = counter
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let header = Header {
            kind: Kind::Record,
            session: SessionId([9; 16]),
            class: Class::Event,
            counter,
        };
        let mut message = minion.seal_request(&header, b"ping").to_vec();
        if action >= 128 {
            let index = usize::from(action) % message.len();
            message[index] ^= action % 7 + 1;
            if let Ok((header, body)) = Header::decode(&message) {
                assert!(master.open_request(&header, body).is_err(), "a forgery");
            }
            continue;
        }
        let (header, body) = Header::decode(&message).expect("a record that was sealed");
        // Counter 0 answered the handshake.
        let is_fresh = !matches!(counter, 0 | u64::MAX)
            && highest.is_none_or(|highest| counter > highest || highest - counter < WINDOW)
            && opened.insert(counter);
        let plain = master.open_request(&header, body);
        assert_eq!(plain.is_ok(), is_fresh, "counter {counter}");
        let Ok(plain) = plain else { continue };
        assert_eq!(plain, &b"ping"[..]);
        highest = highest.max(Some(counter));
        let reply = master.seal_reply(&header, b"pong");
        let (answered, body) = Header::decode(&reply).expect("a record that was sealed");
        assert_eq!(
            minion.open_reply(&answered, body).ok().as_deref(),
            Some(&b"pong"[..])
        );
        let other = Header {
            counter: counter ^ 1,
            ..answered
        };
        assert!(
            minion.open_reply(&other, body).is_err(),
            "another request's"
        );
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let schedule = |steps: &[(u8, u64)]| {
        let steps = steps.iter();
        steps
            .flat_map(|(action, counter)| [&[*action][..], &counter.to_be_bytes()].concat())
            .collect::<Vec<u8>>()
    };
    let header = Header::bare(Kind::Record, Class::Event);
    let sealed = InitiatorRecords::new(&session_keys()).seal_request(&header, b"ping");
    let mut forged = sealed.to_vec();
    forged[30] ^= 1;
    vec![
        schedule(&[(0, 1), (0, 2), (0, 1), (0, 4), (0, 3)]),
        schedule(&[(0, WINDOW), (0, 0), (0, 1), (0, 1)]),
        schedule(&[(200, 5), (0, 5), (0, u64::MAX), (0, u64::MAX - 1), (0, 6)]),
        forged,
    ]
}
