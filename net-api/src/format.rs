//! The forms of answers.

/// A form of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `application/json`
    Json,
    /// YAML, under this type, which is one of [`YAML_TYPES`].
    Yaml(&'static str),
}

/// The types of YAML: Salt's first, and that of the standard.
pub(crate) const YAML_TYPES: [&str; 4] = [
    "application/x-yaml",
    "application/yaml",
    "text/yaml",
    "text/x-yaml",
];
