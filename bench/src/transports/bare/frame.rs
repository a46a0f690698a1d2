//! Frames of the bare byte streams: length, number, payload.

use bytes::{Buf, Bytes, BytesMut};

/// The size of the read buffer.
pub(crate) const ROOM: usize = 128 * 1024;

/// Takes the first frame of `input` when it is complete.
pub(crate) fn take(input: &mut BytesMut) -> Option<(u64, Bytes)> {
    let length = u32::from_le_bytes(*input.first_chunk()?) as usize;
    if input.len() < 4 + length {
        return None;
    }
    input.advance(4);
    let number = input.get_u64_le();
    Some((number, input.split_to(length - 8).freeze()))
}

/// Adds a frame to `output`.
pub(crate) fn put(output: &mut Vec<u8>, number: u64, payload: &[u8]) {
    output.extend_from_slice(&(8 + payload.len() as u32).to_le_bytes());
    output.extend_from_slice(&number.to_le_bytes());
    output.extend_from_slice(payload);
}

/// The topic, behind its length.
const TOPIC: &[u8] = b"\x07job/all";

/// Returns `times` publications of `payload`, numbered from `next` on, and advances `next`.
pub(crate) fn burst(payload: &[u8], times: u64, next: &mut u64) -> Bytes {
    let mut frames = Vec::with_capacity(times as usize * (12 + TOPIC.len() + payload.len()));
    for _ in 0..times {
        put(&mut frames, *next, &[TOPIC, payload].concat());
        *next += 1;
    }
    frames.into()
}

/// Takes the first publication of `input` when it is complete: its number, topic and payload.
pub(crate) fn publication(input: &mut BytesMut) -> Option<(u64, Bytes, Bytes)> {
    let (number, mut payload) = take(input)?;
    let length = usize::from(*payload.first()?);
    if payload.len() < 1 + length {
        return None;
    }
    payload.advance(1);
    Some((number, payload.split_to(length), payload))
}
