//! The paths that the functions take.

use std::fmt;
use std::path::{Path, PathBuf};

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch};

/// An absolute path without a null byte. Nothing is expanded in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AbsolutePath(PathBuf);

impl FromValue for AbsolutePath {
    const TAKES: &'static str = "an absolute path";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::Text(text) if text.starts_with('/') && !text.contains('\0') => {
                Ok(Self(text.into()))
            }
            other => Err(Mismatch::of::<Self>(&other)),
        }
    }
}

impl std::ops::Deref for AbsolutePath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for AbsolutePath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for AbsolutePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

/// Returns the failure of something that was to be done to a path, such as `read`.
pub(super) fn failed(done: &str, path: impl AsRef<Path>, why: impl fmt::Display) -> Failure {
    Failure::Execution(format!("cannot {done} {}: {why}", path.as_ref().display()))
}

/// A text, or a list of texts.
#[derive(Debug, Clone, Default)]
pub(super) struct Texts(pub Vec<String>);

impl FromValue for Texts {
    const TAKES: &'static str = "a text, or a list of texts";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            list @ Value::List(_) => Vec::from_value(list).map(Self),
            other => String::from_value(other).map(|text| Self(vec![text])),
        }
    }
}
