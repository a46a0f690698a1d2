//! What the models of this module's machines have in common.

use proptest::test_runner::{Config, RngSeed};

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
