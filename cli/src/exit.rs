//! Exit codes.

/// Everything went well.
pub(crate) const GOOD: u8 = 0;
/// A minion failed or did not answer, or what was asked for cannot be done.
pub(crate) const FAILED: u8 = 1;
/// No minion matched, or no master answers.
pub(crate) const NOBODY: u8 = 2;
/// The target or the function is missing.
pub(crate) const INCOMPLETE: u8 = 42;
/// A bad option.
pub(crate) const USAGE: u8 = 64;
