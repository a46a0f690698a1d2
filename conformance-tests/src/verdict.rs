//! What came of one requirement.

/// What came of one requirement on one backend. [`Fail`](Self::Fail) and
/// [`UnexpectedPass`](Self::UnexpectedPass) are failures of the suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Kept.
    Pass,
    /// Not kept: what was expected, and what happened.
    Fail(String),
    /// Not applicable, by what the backend declares or the machine has: why.
    Skipped(&'static str),
    /// Not kept, as declared: the reason that was declared, and what happened.
    KnownGap(&'static str, String),
    /// Kept although declared a gap, for this reason: the declaration is stale.
    UnexpectedPass(&'static str),
}
