//! Values that are shown to nobody.

use std::fmt;

use saline_data::Value;

use crate::{FromValue, Mismatch};

/// The text that is shown instead of a secret.
const REDACTED: &str = "** secret **";

/// A value that is shown to nobody. A parameter of this type is secret without being asked.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Makes a value a secret.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value.
    pub fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl<T: FromValue> FromValue for Secret<T> {
    const TAKES: &'static str = T::TAKES;
    const SECRET: bool = true;

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        T::from_value(value)
            .map(Self)
            .map_err(|_| Mismatch::of_hidden::<T>())
    }
}
