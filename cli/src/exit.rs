//! Exit codes.

/// All minions returned, and no return failed.
pub(crate) const GOOD: u8 = 0;
/// A minion failed or did not answer, or the command could not be carried out.
pub(crate) const FAILED: u8 = 1;
/// No minion matched, the master cannot resolve the target, or no master answers.
pub(crate) const NOBODY: u8 = 2;
/// The target or the function is missing.
pub(crate) const INCOMPLETE: u8 = 42;
/// An unknown option, a malformed value of one, or a malformed target: what is found without a master.
pub(crate) const USAGE: u8 = 64;
