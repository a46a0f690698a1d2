//! How errors show values.

use saline_data::Value;

/// The most characters of a text that an error shows.
const SHOWN: usize = 60;

/// Returns a value as an error shows it: short, and without what is nested in it.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Text(text) => format!("{:?}", shortened(text)),
        Value::Bytes(_) => "bytes".to_owned(),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a mapping".to_owned(),
    }
}

/// Returns the beginning of a text.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
