//! What a function that changes a file returns.

use saline_data::Value;

/// What a function that changes something returns.
pub(super) struct Answer(Vec<(String, Value)>);

impl Answer {
    /// Creates an answer that says whether something changed, or would change if this is a `test`.
    pub(super) fn new(is_changed: bool, test: bool) -> Self {
        let mut answer = Self(Vec::new());
        answer.add("changed", Value::Bool(is_changed));
        if test {
            answer.add("test", Value::Bool(true));
        }
        answer
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, key: &str, value: impl Into<Value>) {
        self.0.push((key.to_owned(), value.into()));
    }

    /// Returns the mapping.
    pub(super) fn into_value(self) -> Value {
        Value::Map(self.0)
    }
}
