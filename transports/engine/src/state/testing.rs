//! What the models of this module's machines have in common.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use proptest::test_runner::{Config, RngSeed};

use crate::pipe::WritePipe;

/// Returns the configuration of a model that runs `times` as many schedules as usual. The schedules
/// are the same at every run, so that a change which breaks nothing never fails;
/// `PROPTEST_RNG_SEED` looks at others and `PROPTEST_CASES` at more.
pub(super) fn schedules(times: u32) -> Config {
    let mut config = Config::default();
    config.cases = config.cases.saturating_mul(times);
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(6);
    }
    config
}

/// A connection that takes up to so many bytes of each write, and keeps them.
#[derive(Debug, Default)]
pub(super) struct Accepts {
    pub(super) most: usize,
    pub(super) bytes: Vec<u8>,
}

impl WritePipe for Accepts {
    fn poll_write(
        &mut self,
        _: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let before = self.bytes.len();
        for piece in pieces {
            let room = self.most - (self.bytes.len() - before);
            self.bytes
                .extend_from_slice(&piece[..piece.len().min(room)]);
        }
        match self.bytes.len() - before {
            0 => Poll::Pending,
            count => Poll::Ready(Ok(count)),
        }
    }
    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
