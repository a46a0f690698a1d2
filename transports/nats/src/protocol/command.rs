//! What a client says.

use std::io::{IoSlice, Write};

/// Asks the server to answer `PONG`.
pub(crate) const PING: &[u8] = b"PING\r\n";

/// Answers a `PING`.
pub(crate) const PONG: &[u8] = b"PONG\r\n";

/// Subscribes to `subject` under a number of this client's choice.
pub(crate) fn subscribe(into: &mut Vec<u8>, subject: &str, number: u64) {
    put(into, format_args!("SUB {subject} {number}\r\n"));
}

/// Ends a subscription.
pub(crate) fn unsubscribe(into: &mut Vec<u8>, number: u64) {
    put(into, format_args!("UNSUB {number}\r\n"));
}

/// Publishes `pieces` as one message. `head` is the subject, with the reply subject behind it where there is one.
pub(crate) fn publish(into: &mut Vec<u8>, head: &str, pieces: &[IoSlice<'_>]) {
    let size: usize = pieces.iter().map(|piece| piece.len()).sum();
    put(into, format_args!("PUB {head} {size}\r\n"));
    for piece in pieces {
        into.extend_from_slice(piece);
    }
    into.extend_from_slice(b"\r\n");
}

fn put(into: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // A vector takes whatever is written to it.
    let _ = into.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_lines() {
        let mut said = Vec::new();
        subscribe(&mut said, "a.*", 7);
        publish(
            &mut said,
            "a.b r",
            &[IoSlice::new(b"12"), IoSlice::new(b"3")],
        );
        unsubscribe(&mut said, 7);
        assert_eq!(said, b"SUB a.* 7\r\nPUB a.b r 3\r\n123\r\nUNSUB 7\r\n");
    }
}
