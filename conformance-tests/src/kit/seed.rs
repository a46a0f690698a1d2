//! What faults are drawn from: one number a run, printed, and given again to repeat it.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::OnceLock;

/// Names the seed of a run that is to be repeated.
pub(crate) const SEED: &str = "SALINE_CONFORMANCE_SEED";

/// The seed of this run: what the environment gives, else the same for every process of one run of
/// `cargo nextest`, else a random one.
pub fn seed() -> u32 {
    static DRAWN: OnceLock<u32> = OnceLock::new();
    *DRAWN.get_or_init(|| {
        let given = std::env::var(SEED).ok();
        if let Some(seed) = given.and_then(|text| text.parse().ok()) {
            return seed;
        }
        match nextest_run() {
            Some(run) => digest(&run),
            None => fold(RandomState::new().hash_one(0)),
        }
    })
}

/// The run of `cargo nextest` that this process is a part of, if it is one.
pub(crate) fn nextest_run() -> Option<String> {
    std::env::var("NEXTEST_RUN_ID").ok()
}

/// A number that depends on `text` alone.
pub(crate) fn digest(text: &str) -> u32 {
    let mut hasher = std::hash::DefaultHasher::new();
    text.hash(&mut hasher);
    fold(hasher.finish())
}

fn fold(number: u64) -> u32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Dice that fall the same way for the same seed.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice for `seed`.
    pub fn new(seed: u32) -> Self {
        // xorshift64*, whose state must not be zero.
        let mut dice = Self(u64::from(seed) << 1 | 1);
        for _ in 0..8 {
            dice.roll();
        }
        dice
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    /// Whether something that happens so many times in a hundred happens now.
    pub fn percent(&mut self, times: u64) -> bool {
        self.roll() % 100 < times
    }

    /// A number below `end`, which must not be zero.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll()).unwrap_or_default() % end.max(1)
    }
}
