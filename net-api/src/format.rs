//! The forms of answers.

/// A form of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `application/json`
    Json,
    /// `application/x-yaml`
    Yaml,
}
