//! The pillar of a minion, compiled from the files of the master.
//!
//! `top.sls` says which files are for which minions, each file is rendered ([`saline_render`]) and read as YAML, and what
//! the files say is merged. The top file and the files of a pillar may use what root says of a minion: its id, what
//! `minions.d` assigns to it, and the grains that the configuration trusts. A minion gets nothing because of what it
//! says of itself alone.

mod compiler;
mod merge;
#[cfg(test)]
mod tests;
mod top;

pub use compiler::{Environments, Pillar, PillarOptions, Subject, chosen_files, compile};
pub use merge::MergingStrategy;

/// The most files of one pillar.
pub const MAX_FILES: usize = 1000;

/// The most files that include each other in a row.
pub const MAX_DEPTH: usize = 32;
