//! The values that functions take and return: their packed form, and how they are read and written as text.
//!
//! - [`Value`] is what YAML, JSON and Salt's functions know, and [`Packed`] its form on the wire and in the store.
//! - [`yaml`] reads and writes YAML as Salt does, [`json`] writes JSON, [`python`] writes texts and numbers as
//!   Python does.
//! - [`time_span`] reads and writes spans of time as operators do, such as `15m`.
//! - [`masked()`] shows a value without what it says.
//! - [`printable`] escapes the characters of a peer's text that a terminal or a log must not get.

#[cfg(any(test, feature = "arbitrary"))]
pub mod arbitrary;
pub mod json;
mod masked;
mod nearest;
mod packed;
pub mod printable;
pub mod python;
pub mod time_span;
mod value;
pub mod yaml;

pub use masked::{MASK, masked};
pub use nearest::nearest;
pub use packed::{MAX_DEPTH, MAX_VALUES, Packed, UnpackError, unpack_within};
pub use value::Value;
