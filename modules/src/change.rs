//! What a function that changes something returns.

use saline_data::Value;

/// Returns `{old, new}`, or an empty mapping if both are equal, since nothing had to be changed then.
pub(crate) fn change(old: impl Into<Value>, new: impl Into<Value>) -> Value {
    let (old, new) = (old.into(), new.into());
    match old == new {
        true => Value::Map(Vec::new()),
        false => Value::map([("old", old), ("new", new)]),
    }
}
