//! The error about a file that cannot be rendered.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A place in a file of a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The path of the file, as the operator knows it.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The reason why a file cannot be rendered. One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderError {
    /// The mistake, without its place.
    pub message: String,
    /// The place of the mistake; none where it is the whole file's.
    pub place: Option<Place>,
    /// The places from which the file was included or imported, the nearest first.
    pub included_from: Vec<Place>,
}

impl RenderError {
    /// Returns an error that has no place.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            place: None,
            included_from: Vec::new(),
        }
    }

    pub(crate) fn at(place: Place, message: impl Into<String>) -> Self {
        Self {
            place: Some(place),
            ..Self::new(message)
        }
    }
}

impl std::error::Error for RenderError {}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        for c in self.message.chars() {
            match c {
                '\n' | '\r' => f.write_str(" ")?,
                c => write!(f, "{c}")?,
            }
        }
        for place in &self.included_from {
            write!(f, ", included from {place}")?;
        }
        Ok(())
    }
}
