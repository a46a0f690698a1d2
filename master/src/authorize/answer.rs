//! The answers to the question who may do what, each with the rule that decided.

use std::borrow::Cow;
use std::fmt;

/// The answer that something is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// The rule that allows it.
    pub(crate) rule: Cow<'static, str>,
}

/// The answer that something is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The rule that refuses it, or the one that is missing.
    pub(crate) rule: Cow<'static, str>,
    /// One line for the one who asked.
    pub(crate) line: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

/// The answer whether a user of this machine may have a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admits {
    /// The user may have one.
    Yes,
    /// No rule is for it.
    NoRule(Refusal),
    /// The blacklist names it, so that no rule helps.
    Blacklisted(Refusal),
}
