//! The pillar of a minion, compiled from the files of the master.
//!
//! `top.sls` says which files are for which minions, each file is rendered ([`saline_render`]) and read as YAML, and what
//! the files say is merged. The top file and the files of a pillar may use what root says of a minion: its id, what
//! `minions.d` assigns to it, and the grains that the configuration trusts. A minion gets nothing because of what it
//! says of itself alone.

mod compiler;
mod include;
mod merge;
mod sls_name;
#[cfg(test)]
mod tests;
mod top;

pub use compiler::{
    Check, Environments, Pillar, PillarOptions, Subject, check_all, chosen_files, compile,
};
pub use merge::MergingStrategy;

/// The most files of one pillar.
pub const MAX_FILES: usize = 1000;

/// The most files of an environment that top files name, each as often as they do.
const MAX_NAMED: usize = 100_000;

/// The most files that include each other in a row.
pub const MAX_DEPTH: usize = 32;

/// The most bytes that files add to one pillar that has them already.
const MAX_AGAIN: usize = 64 * 1024 * 1024;

/// The most errors of one pillar whose places are looked for, which takes a rendering each.
const MAX_PLACES: usize = 100;

/// After so many errors no further files are checked ([`check_all`]).
const MAX_ERRORS: usize = 1000;
