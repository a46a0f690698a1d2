//! The return of a function.

use saline_data::{Packed, Value};

/// The return of a function.
#[derive(Debug)]
pub(super) struct Returned {
    pub(super) payload: Packed,
    /// Whether it found what it should.
    pub(super) success: bool,
    /// Whether it is for the one alone who began the run: it is not stored, and not on the event bus.
    pub(super) is_secret: bool,
}

impl From<Packed> for Returned {
    fn from(payload: Packed) -> Self {
        Self {
            payload,
            success: true,
            is_secret: false,
        }
    }
}

impl From<Value> for Returned {
    fn from(value: Value) -> Self {
        Packed::pack(&value).into()
    }
}

impl From<bool> for Returned {
    fn from(value: bool) -> Self {
        Value::Bool(value).into()
    }
}

impl From<Vec<Value>> for Returned {
    fn from(values: Vec<Value>) -> Self {
        Value::List(values).into()
    }
}
