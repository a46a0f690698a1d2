//! The frames of the engine, which every transport over a connection has.

use saline_engine::fuzzing::read_frames;
use saline_protocol::transport::{AdmissionLimits, Limits};

/// What a server takes from a peer that is not admitted.
const STRANGERS_MESSAGE: usize = 64 * 1024;

fn limits(is_server: bool) -> Limits {
    let mut limits = Limits::default();
    if is_server {
        let mut admission = AdmissionLimits::default();
        admission.max_message = STRANGERS_MESSAGE;
        limits.admission = Some(admission);
    }
    limits
}

/// The first byte says how many bytes arrive at once.
fn read(is_server: bool, bytes: &[u8]) {
    let Some((slice, bytes)) = bytes.split_first() else {
        return;
    };
    let limits = limits(is_server);
    let all = read_frames(is_server, &limits, bytes, usize::MAX);
    let in_slices = read_frames(is_server, &limits, bytes, usize::from(*slice) + 1);
    // A violation may be noticed when more or fewer bytes are there.
    assert_eq!(all.violation, in_slices.violation);
    if all.violation.is_none() {
        assert_eq!(all, in_slices, "slices make a difference");
    }
    assert!(all.partial_bytes <= bytes.len());
    let again = read_frames(is_server, &limits, &all.encode(), usize::MAX);
    assert_eq!((again.violation, again.partial_bytes), (None, 0));
    assert_eq!(again.count(), all.count());
    assert_eq!(again.encode(), all.encode());
}

pub(crate) fn server(bytes: &[u8]) {
    read(true, bytes);
}

pub(crate) fn client(bytes: &[u8]) {
    read(false, bytes);
}

/// The frame of a greeting: versions 1, a ping of 15 s, payloads of a mebibyte, and these extensions.
fn greeting(extensions: &[u8]) -> Vec<u8> {
    let mut body = b"saline\x01\x01".to_vec();
    body.extend(15_000_u32.to_le_bytes());
    body.extend((1_u64 << 20).to_le_bytes());
    body.extend(extensions);
    frame(1, &body)
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes(), &[kind][..], body].concat()
}

/// Returns the greeting and these frames, in slices of different sizes.
fn streams(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut seeds = vec![[vec![255], greeting(&[0]), frames.concat()].concat()];
    for frame in frames {
        seeds.push([vec![6], greeting(&[1, 9, 0, 2, 0, 1, 2]), frame.clone()].concat());
    }
    seeds
}

pub(crate) fn server_seeds() -> Vec<Vec<u8>> {
    streams(&[
        frame(3, b"\x07\0\0\0\0\0\0\0payload"),
        frame(6, b"\x07\0\0\0\0\0\0\0\x02\0\0\x03\0a/b\x01\x01\0c"),
        frame(9, b"\x07\0\0\0\0\0\0\0"),
        frame(12, b""),
        frame(3, &[7; 20_000]),
        // A length of which nothing follows.
        vec![0, 0, 1, 0, 3],
        b"\x16\x03\x01\x02\x00".to_vec(),
    ])
}

pub(crate) fn client_seeds() -> Vec<Vec<u8>> {
    let mut seeds = streams(&[
        frame(4, b"\x07\0\0\0\0\0\0\0payload"),
        frame(5, b"\x07\0\0\0\0\0\0\0"),
        frame(7, b"\x07\0\0\0\0\0\0\0"),
        frame(8, b"\x07\0\0\0\0\0\0\0"),
        frame(10, b"\x03\0a/bpayload"),
        frame(10, b"\x03\0a/bpayload again"),
        frame(11, b"\x07\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"),
        frame(12, b""),
        vec![0, 0, 0, 4, 10],
    ]);
    seeds.push([vec![0], frame(2, b"")].concat());
    seeds
}
