//! Payloads that can be told apart.

use bytes::Bytes;

/// How many bytes of a payload are made at once; the rest are copies that carry their number.
const BLOCK: usize = 4096;

/// `size` bytes that no other `seed` gives (from eight bytes on), so that a byte that moves, goes or
/// is doubled is noticed. Cheap, because whoever computes for long lets the links beside it starve.
pub fn payload(seed: u64, size: usize) -> Bytes {
    // xorshift64*, whose state must not be zero.
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut block = Vec::with_capacity(BLOCK);
    while block.len() < BLOCK.min(size) {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        block.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    let mut bytes = Vec::with_capacity(size + BLOCK);
    for number in 0..size.div_ceil(BLOCK) as u64 {
        bytes.extend_from_slice(&block);
        if number > 0 {
            let start = bytes.len() - BLOCK;
            bytes[start..start + 8].copy_from_slice(&number.to_le_bytes());
        }
    }
    bytes.truncate(size);
    bytes.into()
}

/// A payload of `size` bytes, eight at least, that begins with `number`.
pub fn numbered(number: u64, size: usize) -> Bytes {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(size.max(8), 0x5a);
    bytes.into()
}

/// The number of a [`numbered`] payload; `u64::MAX` for one that is too short to have any.
pub fn number(payload: &[u8]) -> u64 {
    payload
        .first_chunk()
        .map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes))
}
