//! Maps whose keys are numbers that we gave out ourselves.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by number. The numbers come from a counter of ours or of libzmq, so nobody can choose them
/// to collide, and the keyed hash that guards against that would be a tenth of a request's cost.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Spreads consecutive numbers (Fibonacci hashing: D. Knuth, TAOCP 3, 6.4).
#[derive(Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_i32(&mut self, number: i32) {
        self.write_u64(u64::from(number.cast_unsigned()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The map looks at the highest and at the lowest bits.
        self.0 ^= self.0 >> 32;
    }
}
